import { styleText } from "node:util";
import type { WriteStream } from "node:tty";
import { plain, rowsOf } from "./line.ts";
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
  /** Replaces what was drawn last. Long lines are broken by the terminal itself, so that they can be copied whole. */
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
  let drawn: readonly Line[] = [];
  let closed = false;
  const giveBack = (): void => {
    stream.write(SHOW_CURSOR);
  };
  // Also when the process ends by an error: a shell without a cursor is a poor farewell.
  process.on("exit", giveBack);
  stream.write(HIDE_CURSOR);
  return {
    draw(lines) {
      const { columns, rows } = stream;
      // Counted with the width of now: terminals break lines anew when they are resized.
      const height = heightOf(drawn, columns);
      drawn = fitting(lines, columns, rows - 1);
      const text = drawn.map((line) => `${paint(line, stream)}${clearAfter(line, columns)}\n`);
      const up = height === 0 ? "" : `\u001B[${height}A`;
      stream.write(`${up}\r${text.join("")}${CLEAR_TO_END}`);
    },
    close() {
      if (closed) return;
      closed = true;
      process.off("exit", giveBack);
      giveBack();
    },
  };
}

function heightOf(lines: readonly Line[], columns: number): number {
  return lines.reduce((sum, line) => sum + rowsOf(line, columns), 0);
}

/** A frame higher than the terminal could not be painted over: its top would have scrolled away. */
function fitting(lines: readonly Line[], columns: number, rows: number): readonly Line[] {
  let left = Math.max(1, rows);
  return lines.filter((line) => {
    left -= rowsOf(line, columns);
    return left >= 0;
  });
}

/**
 * Each line is written over and only its rest is cleared, since clearing first would flicker. A line that ends in the
 * last column has no rest, and clearing there would take its last letter.
 */
function clearAfter(line: Line, columns: number): string {
  const length = plain(line).length;
  return length > 0 && length % columns === 0 ? "" : CLEAR_LINE_END;
}
