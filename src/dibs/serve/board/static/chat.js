// The chat: send messages, preview and undo them, and read the notes.

import { get, identity, myName, post } from "./server.js";
import { follow as followInbox, heard, senderScope, stopFollowing } from "./inbox.js";
import { kept } from "./kept.js";
import { go } from "./route.js";
import { readScopes, version } from "./store.js";
import { Prose } from "./text.js";
import { ago, exactly, lately } from "./time.js";
import { complain } from "./toast.js";
import { html, useEffect, useRef, useSignal } from "./ui.js";

export const sender = kept("sender", "");
const said = kept("said", {}); // sender: messages and answers of this browser
const KEPT = 100;

function remember(who, entry) {
  const before = said.value[who] ?? [];
  said.value = { ...said.value, [who]: [...before, { at: new Date().toISOString(), ...entry }].slice(-KEPT) };
}

export function Chat() {
  const who = identity.value.sender ? "you" : sender.value; // the token identifies the sender
  if (!who) return html`<main class="chat"><${Introduce} /></main>`;
  return html`<main class="chat"><h1 class="unseen">Chat</h1><${Talk} key=${who} who=${who} /><${Plan} who=${who} /></main>`;
}

function Introduce() {
  const name = useSignal(myName.value);
  const onSubmit = (event) => {
    event.preventDefault();
    if (name.value.trim()) sender.value = name.value.trim();
  };
  return html`<form class="welcome" onSubmit=${onSubmit}>
    <h1>Describe your tasks</h1>
    <p>Your messages become tasks and links. “Do the tests before the release” changes the order; “Undo” reverses the last command.</p>
    <p><label for="sender">Your name</label></p>
    <p class="actions"><input id="sender" type="text" required value=${name} onInput=${(event) => { name.value = event.currentTarget.value; }} placeholder="Name or phone number" maxlength="100" autocomplete="off" />
      <button class="primary" type="submit">Begin</button></p>
    <p class="muted">This browser keeps your name; the store keeps only a hash of it.</p>
  </form>`;
}

function Talk({ who }) {
  useEffect(() => {
    followInbox(who);
    return stopFollowing;
  }, [who]);
  const notes = heard.value.map((note) => ({ ...note, from: "desk" }));
  const mine = said.value[who] ?? [];
  const all = [...notes, ...mine].sort((a, b) => a.at.localeCompare(b.at));
  const end = useRef();
  useEffect(() => end.current?.scrollIntoView({ block: "end" }), [all.length]);
  return html`<section class="talk" aria-label="Conversation">
    <header><span>Speaking as <b>${who}</b></span> ${!identity.value.sender && html`<button class="plain" onClick=${() => { sender.value = ""; }}>Switch sender</button>`}</header>
    <div class="messages" role="log" aria-live="polite" tabindex="0">
      ${!all.length && html`<p class="muted hint">For example: "Research competitors, and write a strategy based on the research". After a moment its tasks are on the board.</p>`}
      ${all.map((entry, index) => html`<${Entry} key=${entry.id ?? `${entry.at}-${index}`} entry=${entry} />`)}
      <div ref=${end}></div>
    </div>
    <${Composer} who=${who} />
  </section>`;
}

function Entry({ entry }) {
  const kind = entry.from === "me" ? "mine" : entry.preview ? "preview" : entry.kind === "refused" ? "refused" : "desk";
  return html`<div class=${`entry ${kind}`}>
    ${entry.preview && html`<p class="label">Preview: nothing has been changed</p>`}
    <${Prose} text=${entry.text} />
    <time class="muted" datetime=${entry.at} title=${exactly(entry.at)}>${ago(entry.at)}</time>
  </div>`;
}

function Composer({ who }) {
  const text = useSignal("");
  const busy = useSignal(false);
  const speak = async (words, preview) => {
    if (!words.trim() || busy.value) return;
    busy.value = true;
    remember(who, { from: "me", text: preview ? `${words} (what if?)` : words });
    try {
      const answer = await post("/say", { text: words, sender: who, ...(preview ? { preview } : {}) });
      remember(who, { from: "desk", text: answer.reply, preview });
      if (!preview && words === text.value) text.value = "";
    } catch (error) {
      remember(who, { from: "desk", text: error.message, kind: "refused" });
    }
    busy.value = false;
  };
  const onKeyDown = (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    speak(text.value, false);
  };
  const flush = () => post("/flush", { sender: who }).catch(complain);
  return html`<form class="composer" onSubmit=${(event) => { event.preventDefault(); speak(text.value, false); }}>
    <label class="unseen" for="say">Your message</label>
    <textarea id="say" rows="2" placeholder="Describe a task, or steer: Do X before Y" value=${text} onInput=${(event) => { text.value = event.currentTarget.value; }} onKeyDown=${onKeyDown}></textarea>
    <div class="buttons">
      <button type="button" class="plain" onClick=${() => speak("Undo", false)} title="Take back what the last command changed">Undo</button>
      <button type="button" class="plain" onClick=${flush} title="Do not wait for the rest: read what was said">Read now</button>
      <span class="grow"></span>
      <button type="button" disabled=${!text.value.trim() || busy.value} onClick=${() => speak(text.value, true)}>Preview</button>
      <button type="submit" class="primary" disabled=${!text.value.trim() || busy.value}>Say</button>
    </div>
  </form>`;
}

/** The plan of this sender as text. */
function Plan({ who }) {
  const plan = useSignal("");
  const scope = senderScope.value;
  const current = `${version.value} ${lately.value} ${heard.value.length} ${(said.value[who] ?? []).length}`;
  useEffect(() => {
    if (!scope) return undefined;
    const read = () => get("/plan", { format: "text", scope }).then(
      (found) => { plan.value = found.text; },
      (error) => { plan.value = error.message; },
    );
    const timer = setTimeout(read, 300);
    return () => clearTimeout(timer);
  }, [scope, current]);
  const open = async () => {
    await readScopes().catch(complain);
    go({ view: "board", scope, task: "" });
  };
  return html`<section class="plan" aria-labelledby="plan">
    <header><h2 id="plan">The plan</h2>${scope && html`<button class="plain" onClick=${open}>Open on the board</button>`}</header>
    <pre class="words" tabindex="0">${plan}</pre>
  </section>`;
}
