import type { Sample } from "./results.ts";

/** What one round is given. */
export interface Round {
  /** For servers, removed at the end of the round. */
  readonly dir: string;
  /** From 0. Systems take turns in being first, so that none has the quieter machine. */
  readonly number: number;
  readonly sizes: readonly number[];
}

/** One of `npm run bench -- <name>`. */
export interface Bench {
  /** For people, in one line. */
  readonly about: string;
  /** Rounds, when the command line does not say. */
  readonly runs: number;
  /** Sizes, when the command line does not say. */
  readonly sizes: readonly number[];
  /** Measures every system once, so that rounds are interleaved. */
  readonly round: (round: Round) => Promise<Sample[]>;
}

/** The items in an order that begins with another one in each round. */
export function inTurns<T>(items: readonly T[], round: number): T[] {
  const first = round % items.length;
  return [...items.slice(first), ...items.slice(0, first)];
}

export function tell(line: string): void {
  console.error(`  ${line}`);
}

/**
 * What rehome reaches beside each of the others, in the same round.
 * @param rates the higher, the better
 * @param nameOf the metric, of the other's sample
 */
export function besideOthers(rates: readonly Sample[], nameOf: (other: Sample) => string): Sample[] {
  return rates.flatMap((other) => {
    const ours = rates.find(
      ({ system, metric, size }) => system === "rehome" && metric === other.metric && size === other.size,
    );
    if (ours === undefined || ours === other) return [];
    const value = Number((ours.value / other.value).toFixed(2));
    return [{ system: "rehome", size: other.size, metric: nameOf(other), unit: "times its rate", value }];
  });
}
