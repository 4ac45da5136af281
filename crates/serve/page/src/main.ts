// Page of all targets, told by server-sent events.

import "uplot/dist/uPlot.min.css";
import "./style.css";
import { Detail } from "./detail";
import { find, text } from "./dom";
import { bytes } from "./format";
import { opened } from "./opened";
import { List } from "./targets";
import type { Picture } from "./types";

/** Milliseconds of silence after which nobody is there. */
const SILENCE = 5000;
/** Milliseconds before it is tried again where the browser has given up. */
const AGAIN = 2000;

const detail = new Detail();
let selected: string | undefined;
let picture: Picture | undefined;
let silence: number | undefined;

const list = new List((key) => {
  selected = key;
  show();
});

function show(): void {
  if (picture === undefined) return;
  const { targets, machine, version } = picture;
  const target = targets.find((one) => one.key === selected) ?? targets[0];
  selected = target?.key;
  list.show(targets, selected);
  if (target !== undefined) void detail.select(target.key);
  detail.show(target);
  const used = machine.memory_bytes - machine.available_bytes;
  const swap = machine.swap_bytes - machine.swap_free_bytes;
  const saved = targets.reduce((sum, one) => sum + one.status.saved_bytes, 0);
  text(
    find("#machine"),
    `${machine.host} · ${bytes(used)} of ${bytes(machine.memory_bytes)} in use` +
      ` · ${bytes(swap)} in swap · ${bytes(saved)} saved · frostline ${version}`,
  );
}

function tell(state: "live" | "lost" | "unknown"): void {
  const element = find("#connection");
  element.classList.toggle("lost", state !== "live");
  const words = {
    live: "live",
    lost: "connection lost; what is shown is old",
    unknown: "open the address that frostline serve has printed last",
  };
  text(element, words[state]);
}

function hear(): void {
  window.clearTimeout(silence);
  silence = window.setTimeout(() => tell("lost"), SILENCE);
}

/** After an answer that is no stream a browser does not try again. */
async function again(): Promise<void> {
  try {
    const answer = await fetch("/", { method: "HEAD" });
    tell(answer.status === 401 ? "unknown" : "lost");
  } catch {
    tell("lost");
  }
  window.setTimeout(connect, AGAIN);
}

function connect(): void {
  const events = new EventSource("/api/events");
  events.addEventListener("message", (event: MessageEvent<string>) => {
    picture = JSON.parse(event.data) as Picture;
    tell("live");
    hear();
    show();
  });
  events.addEventListener("error", () => {
    if (events.readyState === EventSource.CLOSED) void again();
    else tell("lost");
  });
}

connect();
void opened();
