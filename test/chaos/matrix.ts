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

export function matrixOf<P>(phases: readonly string[], faults: readonly Fault<P>[]): Cell<P>[] {
  return phases.flatMap((phase) => faults.map((fault) => ({ phase, fault })));
}

/** Of 0 to 1, the same for the same words always. */
export function chance(...words: readonly (string | number)[]): number {
  return createHash("sha256").update(words.join(" ")).digest().readUInt32BE() / 2 ** 32;
}

/**
 * So many cells, drawn by a seed: no phase and no fault twice as long as there are others.
 */
export function draw<P>(cells: readonly Cell<P>[], count: number, seed: string): Cell<P>[] {
  const shuffled = cells.toSorted((a, b) => rank(seed, a) - rank(seed, b));
  const drawn: Cell<P>[] = [];
  while (drawn.length < Math.min(count, cells.length)) {
    const left = shuffled.filter((cell) => !drawn.includes(cell));
    const uses = (cell: Cell<P>) =>
      drawn.filter((other) => other.phase === cell.phase).length +
      drawn.filter((other) => other.fault === cell.fault).length;
    const fewest = Math.min(...left.map(uses));
    drawn.push(left.find((cell) => uses(cell) === fewest)!);
  }
  return drawn;
}

function rank<P>(seed: string, { phase, fault }: Cell<P>): number {
  return chance(seed, phase, fault.name);
}
