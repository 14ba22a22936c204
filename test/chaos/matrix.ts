import { createHash } from "node:crypto";
import type { Fault } from "./fault.ts";

/** When a fault may strike a move. */
export interface Stage {
  readonly phase: string;
  /** While the move waits at the gate before that phase, instead of in it. */
  readonly atGate?: true;
}

/** One fault in one stage. */
export interface Cell<P> extends Stage {
  readonly fault: Fault<P>;
}

export function stageName({ phase, atGate }: Stage): string {
  return atGate ? `gate of ${phase}` : phase;
}

export function cellName({ fault, ...stage }: Cell<never>): string {
  return `${stageName(stage)}: ${fault.name}`;
}

/**
 * Every fault in every stage where it has something to hit, in as few moves as there are faults: a fault strikes in each stage of a move, and each turn
 * gives every stage the next one, as in a Latin square. Faults that clients cannot notice share no move with the others,
 * for whose sake requests may fail.
 *
 * @param seed decides the order of the faults, and of the moves.
 */
export function movesOf<P>(stages: readonly Stage[], faults: readonly Fault<P>[], seed: string): Cell<P>[][] {
  const shuffled = faults.toSorted((a, b) => chance(seed, a.name) - chance(seed, b.name));
  const kinds = [shuffled.filter(({ hidden }) => hidden), shuffled.filter(({ hidden }) => !hidden)];
  const moves = kinds.flatMap((kind) =>
    kind.map((_, turn) =>
      stages
        .map((stage, index) => ({ ...stage, fault: kind[(turn + index) % kind.length]! }))
        .filter(({ atGate, fault }) => !(atGate && fault.amidStep)),
    ),
  );
  const rank = (cells: Cell<P>[]) => chance(seed, ...cells.map(cellName));
  return moves.toSorted((a, b) => rank(a) - rank(b));
}

/** Of 0 to 1, the same for the same words always. */
export function chance(...words: readonly (string | number)[]): number {
  return createHash("sha256").update(words.join(" ")).digest().readUInt32BE() / 2 ** 32;
}
