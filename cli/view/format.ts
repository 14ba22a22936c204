import progress from "cli-progress";

/** How figures, times and names are written. Pure. */

/** `212 ms`, `12.3 s`, `3 min 05 s`, `2 h 03 min`. */
export function duration(ms: number): string {
  if (ms < 999.5) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60_000) return `${(Math.floor(Math.round(ms) / 100) / 10).toFixed(1)} s`;
  const seconds = Math.floor(ms / 1000);
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  return hours === 0 ? `${minutes} min ${pad(seconds % 60)} s` : `${hours} h ${pad(minutes)} min`;
}

function pad(part: number): string {
  return String(part).padStart(2, "0");
}

/** `12,345`. */
export function count(value: number): string {
  return value.toLocaleString("en-US", { maximumFractionDigits: 1 });
}

const BYTE_UNITS = ["B", "kB", "MB", "GB", "TB"] as const;

/** `12.3 MB`, in powers of 1000. */
export function byteSize(bytes: number): string {
  let [value, unit] = [bytes, 0];
  while (value >= 1000 && unit < BYTE_UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${BYTE_UNITS[unit] ?? "B"}`;
}

export function percent(share: number): string {
  // Rounded down: 100% is said only when nothing is left.
  return `${Math.floor(Math.min(1, Math.max(0, share)) * 100)}%`;
}

/** A bar of `width` characters, filled to `share` (0 to 1). */
export function bar(share: number, width: number): string {
  return progress.Format.BarFormat(Math.min(1, Math.max(0, share)), {
    barsize: width,
    barGlue: "",
    barCompleteString: "█".repeat(width),
    barIncompleteString: "░".repeat(width),
  });
}

/** UTC, to the millisecond, since phases can be that short: `2026-05-01T12:00:00.123Z`. */
export function timestamp(at: number): string {
  return new Date(at).toISOString();
}

/** Local time of day: for people in front of a terminal. */
export function timeOfDay(at: number): string {
  const date = new Date(at);
  return `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
}

/**
 * Text from outside on one line and without control characters, so that nobody's reason or error message can move the
 * cursor or colour the screen of who reads it.
 */
export function oneLine(text: string): string {
  // The invisible characters that reorder text are as bad as escapes: they could make one command look like another.
  return text
    .replaceAll(/[\p{Cc}\p{Cf}\u2028\u2029]+/gu, " ")
    .replaceAll(/ {2,}/g, " ")
    .trim();
}

/** A shell word that stands for exactly this text. */
export function shellWord(text: string): string {
  return /^[\w./:@=,+-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** `leftInPlace` → `left in place`. */
export function words(name: string): string {
  return name
    .replaceAll(/([a-z0-9])([A-Z])/g, "$1 $2")
    .replaceAll(/[_-]+/g, " ")
    .toLowerCase();
}
