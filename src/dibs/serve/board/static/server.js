// All requests to the server: adds scope, name and token, and handles errors.

import { kept } from "./kept.js";
import { route } from "./route.js";
import { computed, signal } from "./ui.js";

const BASE = "./api/v1";

export const token = kept("token", "", "sessionStorage");
const givenName = kept("name", "");
export const signInNeeded = signal(false);

/** The token's claims: agent or sender, scopes. Only the server verifies them. */
export const identity = computed(() => claims(token.value));

/** The user's name: from the token, else as entered. */
export const myName = computed(() => identity.value.agent ?? givenName.value);
export const callMe = (name) => {
  givenName.value = name.trim();
};

function claims(text) {
  try {
    const bytes = Uint8Array.from(atob(text.split(".")[1].replaceAll("-", "+").replaceAll("_", "/")), (each) => each.charCodeAt(0));
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return {}; // no valid token: the server will refuse it
  }
}

/** A refusal by the server; status 0 means no answer. */
export class Refusal extends Error {
  constructor(status, code, message, more = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.more = more;
  }
}

const AWAY = "The server does not answer. Nothing was changed; try again when it is back.";

export const get = (path, query, options) => asked("GET", path, { query, ...options });
export const post = (path, body) => written("POST", path, body);
export const patch = (path, body) => written("PATCH", path, body);
export const put = (path, body) => written("PUT", path, body);
export const remove = (path, body) => written("DELETE", path, body);

/** The path of a task. Ids may have any visible character. */
export const taskPath = (id, verb = "") => `/tasks/${encodeURIComponent(id)}${verb && `/${verb}`}`;

/** The path of a named view of the board. */
export const viewPath = (name) => `/views/${encodeURIComponent(name)}`;

/** Send a write; repeat it once under the same key if its answer is lost. */
async function written(method, path, body) {
  const headers = { "Idempotency-Key": freshKey() };
  try {
    return await asked(method, path, { body, headers });
  } catch (error) {
    if (error.status !== 0) throw error;
    return asked(method, path, { body, headers });
  }
}

async function asked(method, path, { query = {}, body, headers = {}, signal: ending } = {}) {
  const answer = await reached(method, url(path, query), {
    method,
    headers: { ...headersFor(), ...headers, ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
    body: body === undefined ? undefined : JSON.stringify(body),
    signal: ending,
  });
  if (!answer.ok) throw await refused(answer);
  return answer.headers.get("Content-Type")?.includes("json") ? answer.json() : answer.text();
}

async function reached(method, where, options) {
  try {
    return await fetch(where, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, "UNREACHABLE", method === "GET" ? "The server does not answer." : AWAY);
  }
}

/** The error in an answer. */
export async function refused(answer) {
  const answered = await answer.json().catch(() => ({}));
  if (answer.status === 401) signInNeeded.value = true;
  const message = answered.detail || answered.title || `The server answered ${answer.status}.`;
  return new Refusal(answer.status, answered.code || String(answer.status), message, answered);
}

export function url(path, query = {}) {
  const said = { scope: route.value.scope, ...query };
  const parts = Object.entries(said).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return `${BASE}${path}${parts.length ? `?${new URLSearchParams(parts)}` : ""}`;
}

export function headersFor() {
  return {
    Accept: "application/json",
    ...(token.value ? { Authorization: `Bearer ${token.value}` } : {}),
    ...(myName.value ? { "X-Dibs-Actor": bytesOf(myName.value) } : {}),
  };
}

/** Headers carry bytes, so each UTF-8 byte is one character. */
const bytesOf = (text) => String.fromCharCode(...new TextEncoder().encode(text));

/** Works on plain http too, unlike `crypto.randomUUID`. */
function freshKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
