import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Ledger } from "../../../testbed/workload/ledger.ts";
import type { Observed, Write } from "../../../testbed/workload/ledger.ts";

const key = "configmaps/register-1";

function acknowledged(ledger: Ledger, kind: Write["kind"]): Write {
  const write = ledger.begin(key, kind, 0);
  ledger.acknowledge(write);
  return write;
}

describe("judge", () => {
  it("wants the last acknowledged write", () => {
    const ledger = new Ledger();
    acknowledged(ledger, "put");
    acknowledged(ledger, "put");
    expect(ledger.judge(key, 2)).toBeUndefined();
    expect(ledger.judge(key, 1)).toEqual({ key, expected: "write 2", found: "write 1" });
    expect(ledger.judge(key, null)).toMatchObject({ found: "nothing" });
  });

  it("takes a later write that nobody answered, but not one that was refused", () => {
    const ledger = new Ledger();
    acknowledged(ledger, "put");
    ledger.refuse(ledger.begin(key, "put", 0));
    ledger.begin(key, "put", 0);
    expect(ledger.judge(key, 1)).toBeUndefined();
    expect(ledger.judge(key, 2)).toBeDefined();
    expect(ledger.judge(key, 3)).toBeUndefined();
  });

  it("wants what was deleted to stay deleted", () => {
    const ledger = new Ledger();
    acknowledged(ledger, "put");
    acknowledged(ledger, "delete");
    expect(ledger.judge(key, null)).toBeUndefined();
    expect(ledger.judge(key, 1)).toEqual({ key, expected: "nothing (write 2 deleted it)", found: "write 1" });
  });

  it("knows nothing of what it never wrote", () => {
    expect(new Ledger().judge(key, 7)).toMatchObject({ expected: "nothing", found: "write 7" });
  });
});

describe("settle", () => {
  it("turns an open write that is read into an acknowledged one", () => {
    const ledger = new Ledger();
    acknowledged(ledger, "put");
    ledger.begin(key, "delete", 0);
    expect(ledger.settle(key, null)).toBeUndefined();
    expect(ledger.judge(key, 1)).toBeDefined();
  });

  it("leaves open what is not there yet", () => {
    const ledger = new Ledger();
    acknowledged(ledger, "put");
    ledger.begin(key, "put", 0);
    ledger.settle(key, 1);
    expect(ledger.openCount(key)).toBe(1);
    expect(ledger.judge(key, 2)).toBeUndefined();
  });

  it("closes an open write once a later one is acknowledged", () => {
    const ledger = new Ledger();
    ledger.begin(key, "put", 0);
    acknowledged(ledger, "put");
    expect(ledger.openCount(key)).toBe(0);
    expect(ledger.judge(key, 1)).toBeDefined();
  });
});

describe("isStale", () => {
  it("compares with what was acknowledged before the read", () => {
    const ledger = new Ledger();
    acknowledged(ledger, "put");
    const since = acknowledged(ledger, "put").number;
    expect(ledger.isStale(key, 1, since)).toBe(true);
    expect(ledger.isStale(key, 2, since)).toBe(false);
    expect(ledger.isStale(key, null, since)).toBe(true);
    ledger.begin(key, "delete", 0);
    expect(ledger.isStale(key, null, since)).toBe(false);
  });

  it("finds nothing wrong in the absence of what was never there", () => {
    expect(new Ledger().isStale(key, null, 0)).toBe(false);
  });
});

type Fate = "acknowledged" | "refused" | "unanswered, took effect" | "unanswered, without effect";

describe("against a store that serves one writer", () => {
  const fates = fc.constantFrom<Fate>(
    "acknowledged",
    "refused",
    "unanswered, took effect",
    "unanswered, without effect",
  );
  const history = fc.array(fc.tuple(fc.boolean(), fates), { maxLength: 30 });

  /** Plays a history as a writer that reads after each open end; returns what the store holds and what was accused. */
  function play(ledger: Ledger, steps: readonly (readonly [boolean, Fate])[]) {
    const accused: unknown[] = [];
    let stored: Observed = null;
    for (const [isDelete, fate] of steps) {
      const write = ledger.begin(key, isDelete ? "delete" : "put", 0);
      const tookEffect = fate === "acknowledged" || fate === "unanswered, took effect";
      if (tookEffect) stored = isDelete ? null : write.number;
      if (fate === "acknowledged") ledger.acknowledge(write);
      else if (fate === "refused") ledger.refuse(write);
      else accused.push(ledger.settle(key, stored) ?? []);
    }
    return { stored, accused: accused.flat() };
  }

  it("never accuses a store that keeps its word", () => {
    fc.assert(
      fc.property(history, (steps) => {
        const ledger = new Ledger();
        const { stored, accused } = play(ledger, steps);
        expect(accused).toEqual([]);
        expect(ledger.judge(key, stored)).toBeUndefined();
      }),
    );
  });

  it("notices a store that forgets the last acknowledged write", () => {
    fc.assert(
      fc.property(history, (steps) => {
        const ledger = new Ledger();
        const { stored: before } = play(ledger, steps);
        const write = acknowledged(ledger, "put");
        expect(ledger.judge(key, before)).toMatchObject({ expected: `write ${write.number}` });
      }),
    );
  });
});
