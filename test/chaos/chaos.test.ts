import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { whyNot } from "../e2e/control-plane/bed.ts";
import { controlPlane } from "./control-plane/kind.ts";
import type { Place } from "./fault.ts";
import type { Kind, Opened } from "./kind.ts";
import { logicalCluster } from "./logical-cluster/kind.ts";
import { cellName, draw, matrixOf } from "./matrix.ts";
import { measureUsual, runCell } from "./run.ts";
import type { Outcome, Usual } from "./run.ts";
import { tableOf, verdictOf } from "./table.ts";

/**
 * Every fault in every phase is `npm run chaos`. Otherwise some cells, drawn by a seed; the worker's faults in each phase
 * are also in test/e2e.
 */
const { REHOME_CHAOS, REHOME_CHAOS_SEED: seed = "rehome", REHOME_CHAOS_CELLS } = process.env;
const isWhole = REHOME_CHAOS === "all";
const QUICK = 4;

function describeKind<P extends Place>(kind: Kind<P>, without?: string): void {
  const all = matrixOf(kind.phases, kind.faults);
  const count = Number(REHOME_CHAOS_CELLS ?? (isWhole ? all.length : QUICK));
  describe.skipIf(without)(`${kind.name} under faults${without ? ` (${without})` : ""}`, () => {
    let place: Opened<P>;
    let usual: Usual;
    const outcomes: Outcome[] = [];
    beforeAll(async () => {
      place = await kind.open();
      usual = await measureUsual(kind, place);
    });
    const file = resolve(join(".rehome", `chaos-${kind.name}.json`));
    afterAll(async () => {
      await place?.close();
      const title = `${kind.name}, seed ${seed}: ${outcomes.length} of ${all.length} cells, ${file}`;
      process.stdout.write(`\n${title}\n\n${tableOf(outcomes)}\n\n`);
    });

    const cells = count < all.length ? draw(all, count, seed) : all;
    test.each(cells.map((cell) => [cellName(cell), cell] as const))("%s", async (_name, cell) => {
      try {
        const outcome = await runCell({ kind, place, usual, seed }, cell);
        outcomes.push(outcome);
        process.stdout.write(`${cellName(cell)}: ${verdictOf(outcome)}\n`);
        // After each, because the whole takes hours and may be stopped.
        mkdirSync(dirname(file), { recursive: true });
        writeFileSync(file, `${JSON.stringify({ seed, cells: all.length, outcomes }, undefined, 1)}\n`);
        expect(outcome).toMatchObject({ broken: [], hit: true });
      } catch (error) {
        process.stdout.write(`${cellName(cell)}: ${String(error)}\n`);
        // What is broken must not be blamed on the next cell.
        await place.close();
        place = await kind.open();
        throw error;
      }
    });
  });
}

describeKind(logicalCluster);
// A move of a control plane takes minutes: its faults of every day are in test/e2e/control-plane.
if (isWhole) describeKind(controlPlane, whyNot);
