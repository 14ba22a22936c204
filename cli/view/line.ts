/** A line of text for a terminal, with its tones kept apart from its letters, so that it can be measured and cut. */
export type Line = readonly Span[];

export interface Span {
  readonly text: string;
  readonly tone?: Tone;
}

export type Tone = "strong" | "faint" | "good" | "bad" | "warn" | "live";

export function span(text: string, tone?: Tone): Span {
  return tone === undefined ? { text } : { text, tone };
}

/** The letters alone. */
export function plain(line: Line): string {
  return line.map(({ text }) => text).join("");
}

const LETTERS = new Intl.Segmenter();

/** The line cut to `width` characters. */
export function clip(line: Line, width: number): Line {
  const kept: Span[] = [];
  let left = width;
  for (const part of line) {
    if (left <= 0) break;
    const letters = Array.from(LETTERS.segment(part.text), ({ segment }) => segment);
    kept.push(letters.length <= left ? part : { ...part, text: `${letters.slice(0, left - 1).join("")}…` });
    left -= letters.length;
  }
  return kept;
}

/** Rows of a terminal of that width that the line takes up. */
export function rowsOf(line: Line, width: number): number {
  return Math.max(1, Math.ceil(plain(line).length / Math.max(1, width)));
}
