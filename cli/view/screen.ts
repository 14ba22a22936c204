import { styleText } from "node:util";
import type { WriteStream } from "node:tty";
import { clip } from "./line.ts";
import type { Line, Tone } from "./line.ts";

const STYLES: Readonly<Record<Tone, Parameters<typeof styleText>[0]>> = {
  strong: "bold",
  faint: "gray",
  good: "green",
  bad: "red",
  warn: "yellow",
  live: "cyan",
};

const HIDE_CURSOR = "\u001B[?25l";
const SHOW_CURSOR = "\u001B[?25h";
const CLEAR_LINE_END = "\u001B[K";
const CLEAR_TO_END = "\u001B[0J";

/** A part of the terminal that is painted over again and again. */
export interface Screen {
  /** Replaces what was drawn last. Lines that do not fit are cut. */
  draw(lines: readonly Line[]): void;
  /** Leaves what was drawn last above the cursor and gives the cursor back. */
  close(): void;
}

/** Letters and tones as the terminal wants them; tones are left out where colours are not wanted (`NO_COLOR`). */
export function paint(line: Line, stream: NodeJS.WritableStream): string {
  return line
    .map(({ text, tone }) => (tone === undefined ? text : styleText(STYLES[tone], text, { stream })))
    .join("");
}

export function openScreen(stream: WriteStream): Screen {
  let height = 0;
  let closed = false;
  const giveBack = (): void => {
    stream.write(SHOW_CURSOR);
  };
  // Also when the process ends by an error: a shell without a cursor is a poor farewell.
  process.on("exit", giveBack);
  stream.write(HIDE_CURSOR);
  return {
    draw(lines) {
      // A frame higher than the terminal could not be painted over: its top would have scrolled away.
      const fitting = lines.slice(0, Math.max(1, stream.rows - 1));
      // Each line is written over and only its rest is cleared: clearing first would flicker.
      const text = fitting.map((line) => `${paint(clip(line, stream.columns - 1), stream)}${CLEAR_LINE_END}\n`);
      const up = height === 0 ? "" : `\u001B[${height}A`;
      stream.write(`${up}\r${text.join("")}${CLEAR_TO_END}`);
      height = fitting.length;
    },
    close() {
      if (closed) return;
      closed = true;
      process.off("exit", giveBack);
      giveBack();
    },
  };
}
