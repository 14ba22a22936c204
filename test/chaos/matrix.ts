import { createHash } from "node:crypto";
import type { Fault } from "./fault.ts";

/** One fault in one phase. */
export interface Cell<P> {
  readonly phase: string;
  readonly fault: Fault<P>;
}

export function cellName({ phase, fault }: Cell<never>): string {
  return `${phase}: ${fault.name}`;
}

/**
 * Every fault in every phase, in as few moves as there are faults: a fault strikes in each phase of a move, and each turn
 * gives every phase the next one, as in a Latin square. Faults that clients cannot notice share no move with the others,
 * for whose sake requests may fail.
 *
 * @param seed decides the order of the faults, and of the moves.
 */
export function movesOf<P>(
  phases: readonly string[],
  faults: readonly Fault<P>[],
  seed: string,
): Cell<P>[][] {
  const shuffled = faults.toSorted((a, b) => chance(seed, a.name) - chance(seed, b.name));
  const kinds = [shuffled.filter(({ hidden }) => hidden), shuffled.filter(({ hidden }) => !hidden)];
  const moves = kinds.flatMap((kind) =>
    kind.map((_, turn) =>
      phases.map((phase, index) => ({ phase, fault: kind[(turn + index) % kind.length]! })),
    ),
  );
  const rank = (cells: Cell<P>[]) => chance(seed, ...cells.map(cellName));
  return moves.toSorted((a, b) => rank(a) - rank(b));
}

/** Of 0 to 1, the same for the same words always. */
export function chance(...words: readonly (string | number)[]): number {
  return createHash("sha256").update(words.join(" ")).digest().readUInt32BE() / 2 ** 32;
}
