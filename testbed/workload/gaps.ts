/** How long clients were without an answer. Pure. All times are ms since the epoch. */

export interface Gap {
  /** Length beyond the usual interval between two successes. */
  readonly ms: number;
  /** The success before it. */
  readonly from: number;
  /** The success after it, or the end of the observation. */
  readonly to: number;
  /** Median of the intervals between successes. */
  readonly usualMs: number;
}

/**
 * The longest time between two consecutive successes, minus the usual interval.
 *
 * @param successes when each success was answered, in any order
 * @param end of the observation: a silence that lasts until then counts too
 * @param across only silences that overlap this window count
 * @returns undefined where there are fewer than two successes, or no such silence
 */
export function longestGap(
  successes: readonly number[],
  end: number,
  across: { readonly from: number; readonly to: number } = { from: -Infinity, to: Infinity },
): Gap | undefined {
  const times = successes.toSorted((one, other) => one - other);
  const [first, ...rest] = times;
  if (first === undefined || rest.length === 0) return undefined;
  const usualMs = median(intervals(times));
  let longest: Gap | undefined;
  let from = first;
  for (const to of [...rest, Math.max(end, times.at(-1) as number)]) {
    const ms = Math.max(0, to - from - usualMs);
    const counts = from <= across.to && to >= across.from;
    if (counts && (longest === undefined || ms > longest.ms)) longest = { ms, from, to, usualMs };
    from = to;
  }
  return longest;
}

function intervals(times: readonly number[]): number[] {
  return times.slice(1).map((time, index) => time - (times[index] as number));
}

/** Of an empty list: 0. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((one, other) => one - other);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? 0;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? 0) + upper) / 2;
}
