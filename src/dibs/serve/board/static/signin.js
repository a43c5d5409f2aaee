// Sign-in with a token. It is stored for this window only, and sent only to this server.

import { identity, signInNeeded, token } from "./server.js";
import { follow } from "./live.js";
import { go, route } from "./route.js";
import { html, useSignal } from "./ui.js";

export function SignIn() {
  const text = useSignal("");
  const tried = Boolean(token.value);
  const onSubmit = (event) => {
    event.preventDefault();
    token.value = text.value.trim();
    signInNeeded.value = false;
    const { scopes } = identity.value;
    if (scopes?.length && !scopes.includes(route.value.scope)) go({ scope: scopes[0], task: "" });
    else follow();
  };
  return html`<main class="sign-in">
    <form class="welcome" onSubmit=${onSubmit}>
      <h1>This server needs a token</h1>
      <p>The operator of the server makes one with</p>
      <pre><code>dibs token create --agent NAME --can admin</code></pre>
      ${tried && html`<p class="trouble" role="alert">That token was not accepted. It may have expired, or be meant for another server.</p>`}
      <p><label for="token">Token</label></p>
      <p class="actions"><input id="token" type="password" required autocomplete="off" spellcheck="false" value=${text} onInput=${(event) => { text.value = event.currentTarget.value; }} />
        <button type="submit" class="primary">Open the board</button></p>
      <p class="muted">This window keeps it until you close it.</p>
    </form>
  </main>`;
}
