// Every word with the server goes through here: scope, name, token and errors are seen to once.

import { kept } from "./kept.js";
import { route } from "./route.js";
import { computed, signal } from "./ui.js";

const BASE = "./api/v1";

export const token = kept("token", "", "sessionStorage");
const givenName = kept("name", "");
export const signInNeeded = signal(false);

/** What the token says of whom it belongs to: agent or sender, scopes. The server alone decides whether that is true. */
export const identity = computed(() => claims(token.value));

/** Who acts here: whom the token names, else what this person calls themselves. */
export const myName = computed(() => identity.value.agent ?? givenName.value);
export const callMe = (name) => {
  givenName.value = name.trim();
};

function claims(text) {
  try {
    const bytes = Uint8Array.from(atob(text.split(".")[1].replaceAll("-", "+").replaceAll("_", "/")), (each) => each.charCodeAt(0));
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return {}; // no token, or none of ours: the server will say so
  }
}

/** What the server said no to, or that it did not answer at all (status 0). */
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
export const remove = (path, body) => written("DELETE", path, body);

/** A task's own path. Ids may hold any visible character. */
export const taskPath = (id, verb = "") => `/tasks/${encodeURIComponent(id)}${verb && `/${verb}`}`;

/** An answer that got lost is asked for again under the same key, so that nothing is done twice. */
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

/** The error that an answer tells of. */
export async function refused(answer) {
  const told = await answer.json().catch(() => ({}));
  if (answer.status === 401) signInNeeded.value = true;
  const message = told.detail || told.title || `The server answered ${answer.status}.`;
  return new Refusal(answer.status, told.code || String(answer.status), message, told);
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

/** A header carries bytes, so UTF-8 is written a byte a character. */
const bytesOf = (text) => String.fromCharCode(...new TextEncoder().encode(text));

/** `crypto.randomUUID` is kept from pages that are not on https or loopback; this is not. */
function freshKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
