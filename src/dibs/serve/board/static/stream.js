// Server-sent events.

import { headersFor, refused, url } from "./server.js";

/** Server-sent events over fetch, which unlike EventSource can send a token and reports a broken connection. */
export async function* stream(path, query, ending) {
  const answer = await fetch(url(path, query), {
    headers: { ...headersFor(), Accept: "text/event-stream" },
    signal: ending,
    cache: "no-store",
  });
  if (!answer.ok) throw await refused(answer);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split(/\r?\n\r?\n/);
    rest = blocks.pop();
    for (const block of blocks) yield parsed(block);
  }
}

function parsed(block) {
  const message = { event: "message", data: "" };
  for (const line of block.split(/\r?\n/)) {
    const [, name, value] = /^([^:]*):? ?(.*)$/.exec(line);
    if (name === "data") message.data += (message.data && "\n") + value;
    else if (name) message[name] = value;
  }
  return message;
}
