// Control of a target's fast memory, where the server lets the page say so.

import { find, text } from "./dom";

/** Header by which the server knows that no other site asks. */
const HEADER = "x-frostline-control";

/** What no other site can read; undefined where nothing may be changed. Each server has its own. */
async function secret(): Promise<string | undefined> {
  const answer = await fetch("/api/control");
  const told = answer.ok ? ((await answer.json()) as { secret: string } | null) : null;
  return told?.secret;
}

export class Control {
  private readonly form = find<HTMLFormElement>("#control");
  private readonly size = find<HTMLInputElement>("#size");
  private readonly answer = find("#control span");
  private key = "";

  constructor() {
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.ask(this.size.value);
    });
    find("#control button[type=button]").addEventListener("click", () => {
      this.size.value = "";
      void this.ask("");
    });
  }

  /** Begins with another target. */
  async select(key: string): Promise<void> {
    this.key = key;
    this.size.value = "";
    text(this.answer, "");
    this.form.hidden = (await secret()) === undefined;
  }

  private async ask(size: string): Promise<void> {
    const path = `/api/fast?target=${encodeURIComponent(this.key)}&size=${encodeURIComponent(size)}`;
    const answer = await fetch(path, { method: "POST", headers: { [HEADER]: (await secret()) ?? "" } });
    text(this.answer, answer.ok ? "It will be so within a second or two." : await answer.text());
  }
}
