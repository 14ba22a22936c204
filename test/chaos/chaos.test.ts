import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { whyNot } from "../e2e/control-plane/bed.ts";
import { controlPlane } from "./control-plane/kind.ts";
import type { Place } from "./fault.ts";
import type { Kind, Opened } from "./kind.ts";
import { logicalCluster } from "./logical-cluster/kind.ts";
import { cellName, movesOf } from "./matrix.ts";
import type { Cell } from "./matrix.ts";
import { measureUsual, strikeMoves } from "./run.ts";
import type { Outcome, Usual } from "./run.ts";
import { tableOf, verdictOf } from "./table.ts";

/**
 * Every fault in every phase is `npm run chaos`. Otherwise every other cell of the first move that a seed draws with
 * faults that clients may notice; the worker's faults in each phase are also in test/e2e.
 */
const {
  REHOME_CHAOS,
  REHOME_CHAOS_SEED: seed = "rehome",
  REHOME_CHAOS_CELLS = "",
  REHOME_CHAOS_MOVES,
} = process.env;
const isWhole = REHOME_CHAOS === "all";

function describeKind<P extends Place>(kind: Kind<P>, without?: string): void {
  const wanted = new RegExp(REHOME_CHAOS_CELLS);
  const all = movesOf(kind.stages, kind.faults, seed)
    .map((cells) => cells.filter((cell) => wanted.test(cellName(cell))))
    .filter((cells) => cells.length > 0);
  const isNoticed = (cells: Cell<P>[]) => cells.every(({ fault }) => !fault.hidden);
  const few = () => all.filter(isNoticed).slice(0, 1).map(everyOther);
  const moves =
    isWhole || REHOME_CHAOS_MOVES ? all.slice(0, Number(REHOME_CHAOS_MOVES ?? all.length)) : few();
  describe.skipIf(without)(`${kind.name} under faults${without ? ` (${without})` : ""}`, () => {
    let place: Opened<P>;
    let usual: Usual;
    /** What is broken must not be blamed on the next move. It stays open until then, for whoever tells of the failure. */
    let isBroken = false;
    const outcomes: Outcome[] = [];
    beforeAll(async () => {
      place = await kind.open();
      usual = await measureUsual(kind, place);
    });
    const file = resolve(join(".rehome", `chaos-${kind.name}.json`));
    afterAll(async () => {
      await place?.close();
      const count = movesOf(kind.stages, kind.faults, seed).flat().length;
      const title = `${kind.name}, seed ${seed}: ${outcomes.length} of ${count} cells, ${file}`;
      process.stdout.write(`\n${title}\n\n${tableOf(outcomes)}\n\n`);
    });

    test.each(moves.map((cells, index) => [titleOf(cells, index), cells] as const))(
      "%s",
      async (_, cells) => {
        if (isBroken) {
          await place.close();
          place = await kind.open();
          isBroken = false;
        }
        try {
          const struck = await strikeMoves({ kind, place, usual, seed }, cells);
          outcomes.push(...struck);
          for (const outcome of struck) {
            process.stdout.write(`${outcome.stage}: ${outcome.fault}: ${verdictOf(outcome)}\n`);
          }
          // After each, because the whole takes hours and may be stopped.
          mkdirSync(dirname(file), { recursive: true });
          writeFileSync(file, `${JSON.stringify({ seed, outcomes }, undefined, 1)}\n`);
          expect(struck.filter(({ broken, hit }) => broken.length > 0 || !hit)).toEqual([]);
        } catch (error) {
          process.stdout.write(`${cells.map(cellName).join("; ")}: ${String(error)}\n`);
          isBroken = true;
          throw error;
        }
      },
    );
  });
}

function everyOther<T>(items: readonly T[]): T[] {
  return items.filter((_, index) => index % 2 === 1);
}

function titleOf(cells: readonly Cell<never>[], index: number): string {
  const [only, ...others] = cells;
  return others.length === 0 ? cellName(only!) : `move ${index + 1}, struck ${cells.length} times`;
}

describeKind(logicalCluster);
// A move of a control plane takes minutes: its faults of every day are in test/e2e/control-plane.
if (isWhole) describeKind(controlPlane, whyNot);
