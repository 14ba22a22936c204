import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { afterStep, judgeStep, quorumOf } from "../../etcd/membership/plan.ts";
import type { Evidence, PlannedMember, Site, Step } from "../../etcd/membership/plan.ts";

const proven: Evidence = { hashesEqual: true, alarms: [] };

function member(id: string, change: Partial<PlannedMember> = {}): PlannedMember {
  const site: Site = id.startsWith("s") ? "source" : "destination";
  const well = { started: true, healthy: true, inSync: true, leader: false };
  return { id, site, learner: false, ...well, ...change };
}

const voters = (...ids: string[]) => ids.map((id) => member(id));
const learner = (id: string) => member(id, { learner: true });

function refusals(members: readonly PlannedMember[], step: Step, evidence = proven): readonly string[] {
  return judgeStep(members, step, evidence).refusals;
}

describe("quorumOf", () => {
  test.each([
    { ids: ["s0", "s1", "s2"], needed: 2, spare: 1, survivors: ["source"] },
    { ids: ["s0", "s1", "s2", "d0"], needed: 3, spare: 1, survivors: ["source"] },
    { ids: ["s0", "s1", "s2", "d0", "d1"], needed: 3, spare: 2, survivors: ["source"] },
    { ids: ["s0", "s1", "s2", "d0", "d1", "d2"], needed: 4, spare: 2, survivors: [] },
    { ids: ["s1", "s2", "d0", "d1", "d2"], needed: 3, spare: 2, survivors: ["destination"] },
    { ids: ["s2", "d0", "d1", "d2"], needed: 3, spare: 1, survivors: ["destination"] },
    { ids: ["d0", "d1", "d2"], needed: 2, spare: 1, survivors: ["destination"] },
  ])("of $ids", ({ ids, needed, spare, survivors }) => {
    expect(quorumOf(voters(...ids))).toEqual({
      voters: ids.length,
      healthy: ids.length,
      needed,
      spare,
      survivors,
    });
  });
});

describe("judgeStep", () => {
  const five = voters("s0", "s1", "s2", "d0", "d1");
  const six = voters("s0", "s1", "s2", "d0", "d1", "d2");

  test("allows the whole move, and each undo before its point of no return", () => {
    let members: readonly PlannedMember[] = voters("s0", "s1", "s2");
    const make = (step: Step) => {
      expect(refusals(members, step)).toEqual([]);
      members = afterStep(members, step);
    };
    const join = (id: string) => {
      make({ kind: "add-learner" });
      members = [...members, learner(id)];
      expect(refusals(members, { kind: "remove", id }, { hashesEqual: false, alarms: ["NOSPACE"] })).toEqual(
        [],
      );
    };
    for (const id of ["d0", "d1"]) {
      join(id);
      make({ kind: "promote", id });
      expect(refusals(members, { kind: "remove", id }, { hashesEqual: false, alarms: ["NOSPACE"] })).toEqual(
        [],
      );
    }
    join("d2");
    make({ kind: "promote-to-even", id: "d2" });
    expect(refusals(members, { kind: "remove", id: "d2" })).toEqual([]);
    for (const id of ["s0", "s1", "s2"]) make({ kind: "remove", id });
    expect(members.map(({ id }) => id)).toEqual(["d0", "d1", "d2"]);
  });

  test("the even step is refused under its everyday name, and its special name elsewhere", () => {
    const members = [...five, learner("d2")];
    expect(refusals(members, { kind: "promote", id: "d2" })).toEqual(["neither site could go on alone"]);
    const three = [...voters("s0", "s1", "d0", "d1", "d2"), learner("s2")];
    expect(refusals(three, { kind: "promote-to-even", id: "s2" })).toEqual([]);
    const lame = [...voters("s0", "s1", "d0", "d1"), learner("d2")];
    expect(refusals(lame, { kind: "promote-to-even", id: "d2" })).toEqual([]);
    const split = [...voters("s0", "s1", "d0"), learner("d1")];
    expect(refusals(split, { kind: "promote-to-even", id: "d1" })).toEqual([]);
    expect(refusals(split, { kind: "promote", id: "d1" })).not.toEqual([]);
  });

  test("no change goes on with a voter down, but taking out the one that is down", () => {
    const down = (id: string) => five.map((each) => (each.id === id ? member(id, { healthy: false }) : each));
    expect(refusals(down("s1"), { kind: "add-learner" })).toEqual(["the voter s1 is not healthy"]);
    expect(refusals([...down("s1"), learner("d2")], { kind: "promote-to-even", id: "d2" })).toContain(
      "the voter s1 is not healthy",
    );
    expect(refusals(down("d1"), { kind: "remove", id: "d0" })).toContain(
      "3 of 4 voters would be healthy, with 3 needed",
    );
    expect(refusals(down("d1"), { kind: "remove", id: "d1" })).toEqual([]);
  });

  test("a source's voter is removed only on proof, never the leader", () => {
    const step = { kind: "remove", id: "s0" } as const;
    expect(refusals(six, step)).toEqual([]);
    expect(refusals(six, step, { hashesEqual: false, alarms: [] })).toHaveLength(1);
    expect(refusals(six, step, { hashesEqual: true, alarms: ["CORRUPT"] })).toEqual([
      "alarms are raised: CORRUPT",
    ]);
    const led = six.map((each) => (each.id === "s0" ? member("s0", { leader: true }) : each));
    expect(refusals(led, step)).toEqual(["s0 leads: move the leader first"]);
    expect(refusals(five, step)).toEqual(["neither site could go on alone"]);
  });

  test("a learner is promoted only when it is well and in sync", () => {
    for (const fault of [{ started: false }, { healthy: false }, { inSync: false }]) {
      const members = [...voters("s0", "s1", "s2"), { ...learner("d0"), ...fault }];
      expect(refusals(members, { kind: "promote", id: "d0" })).not.toEqual([]);
    }
  });

  test("a step that has been made may be made again", () => {
    expect(refusals(five, { kind: "promote", id: "d1" })).toEqual([]);
    expect(refusals(five, { kind: "remove", id: "gone" })).toEqual([]);
    expect(refusals(five, { kind: "promote", id: "gone" })).toEqual(["gone is not a member"]);
  });

  test("a lost source is removed from a cluster that is complete at the destination", () => {
    const lost = (...names: string[]) => names.map((id) => member(id, { healthy: false }));
    const whole = voters("d0", "d1", "d2");
    expect(refusals([...lost("s1", "s2"), ...whole], { kind: "remove", id: "s1" })).toEqual([]);
    expect(refusals([...lost("s2"), ...whole], { kind: "remove", id: "s2" })).toEqual([]);
  });

  test("never fewer than three voters", () => {
    const [d0, d1] = voters("d0", "d1");
    expect(refusals([d0!, d1!, member("d2", { healthy: false })], { kind: "remove", id: "d2" })).not.toEqual(
      [],
    );
    expect(refusals(voters("d0", "d1", "d2"), { kind: "remove", id: "d0" })).not.toEqual([]);
    expect(refusals([...voters("s0"), learner("d0")], { kind: "promote", id: "d0" })).not.toEqual([]);
  });
});

/** What happens to a call after it was allowed. */
type Fate = "acknowledged" | "landed, then timed out" | "lost" | "late";

type Event =
  | {
      readonly type: "step";
      readonly step: Step | "forward" | "back";
      readonly fate: Fate;
      readonly unseen: string | undefined;
    }
  | { readonly type: "down" | "up"; readonly id: string }
  | { readonly type: "the late call lands" };

const idArbitrary = fc.constantFrom("s0", "s1", "s2", "d0", "d1", "d2", "d3");
/** A move that has come to any point. */
const startArbitrary = fc.constantFrom(
  voters("s0", "s1", "s2"),
  voters("s0", "s1", "s2", "d0"),
  [...voters("s0", "s1", "s2", "d0", "d1"), learner("d2")],
  voters("s0", "s1", "s2", "d0", "d1", "d2"),
  voters("s1", "s2", "d0", "d1", "d2"),
  voters("s2", "d0", "d1", "d2"),
);
const stepArbitrary: fc.Arbitrary<Step> = fc.oneof(
  fc.constant({ kind: "add-learner" } as const),
  fc.record({
    kind: fc.constantFrom("promote", "promote-to-even", "remove"),
    id: idArbitrary,
  }) as fc.Arbitrary<Step>,
);
const eventArbitrary: fc.Arbitrary<Event> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      type: fc.constant("step" as const),
      step: fc.oneof(
        { weight: 10, arbitrary: fc.constant("forward" as const) },
        { weight: 1, arbitrary: fc.constant("back" as const) },
        { weight: 2, arbitrary: stepArbitrary },
      ),
      fate: fc.constantFrom<Fate[]>("acknowledged", "landed, then timed out", "lost", "late"),
      unseen: fc.option(idArbitrary, { nil: undefined, freq: 8 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ type: fc.constant("down" as const), id: idArbitrary }) },
  { weight: 6, arbitrary: fc.record({ type: fc.constant("up" as const), id: idArbitrary }) },
  { weight: 1, arbitrary: fc.constant({ type: "the late call lands" } as const) },
);

/** A cluster as etcd keeps it, with a call that may still be on its way. */
class World {
  members: readonly PlannedMember[];
  readonly history: string[] = [];
  /** Voters at the source and the destination before and after each change, e.g. `3+2 3+3`. */
  readonly changes = new Set<string>();
  readonly #down = new Set<string>();
  #joined = 3;
  #late: { readonly step: Step; unseen: number } | undefined;

  get #shape(): string {
    const count = (site: Site) => this.members.filter((each) => !each.learner && each.site === site).length;
    return `${count("source")}+${count("destination")}`;
  }

  constructor(members: readonly PlannedMember[]) {
    this.members = members;
  }

  run(event: Event): void {
    if (event.type === "step") this.#try(event);
    else if (event.type === "the late call lands") this.#landLate();
    else this.#setDown(event.id, event.type === "down");
  }

  #setDown(id: string, down: boolean): void {
    if (down === this.#down.has(id)) return;
    if (this.#late) this.#late.unseen += 1;
    if (down) this.#down.add(id);
    else this.#down.delete(id);
    this.members = this.members.map((each) => ({ ...each, healthy: !this.#down.has(each.id) }));
  }

  /** One attempt: a look, a judgement, perhaps a failure that nobody has seen, and the call. */
  #try({ step: wanted, fate, unseen }: Event & { type: "step" }): void {
    const step = wanted === "forward" ? this.#forward() : wanted === "back" ? this.#back() : wanted;
    if (judgeStep(this.members, step, proven).refusals.length > 0) return;
    if (unseen !== undefined) this.#setDown(unseen, true);
    // Raft takes no second change while one is on its way (raft.go, `pendingConfIndex`): it drops the proposal.
    if (fate === "lost" || this.#late) return;
    if (fate === "late") this.#late = { step, unseen: unseen === undefined ? 0 : 1 };
    else this.#land(step);
    // Whoever was not told tries again: etcd is sent the same call twice.
    if (fate === "landed, then timed out") this.#land(step);
  }

  /** What lands late was allowed on another look: one member may have failed or come back since, not two. */
  #landLate(): void {
    const call = this.#late;
    this.#late = undefined;
    if (call && call.unseen <= 1) this.#land(call.step);
  }

  /** etcd's own rules, as it applies a change: one learner, ids are never used again. */
  #land(step: Step): void {
    const before = quorumOf(this.members);
    const shape = this.#shape;
    if (step.kind === "add-learner") this.#addLearner();
    else this.members = afterStep(this.members, step);
    const after = quorumOf(this.members);
    this.changes.add(`${shape} ${this.#shape}`);
    this.history.push(
      `${JSON.stringify(step)} ${before.healthy}/${before.voters} → ${after.healthy}/${after.voters}`,
    );
    if (before.spare < 0) return;
    expect(after.spare, this.history.join("\n")).toBeGreaterThanOrEqual(0);
    expect(this.members.filter((each) => each.learner).length).toBeLessThanOrEqual(1);
  }

  /** The next step of a move. */
  #forward(): Step {
    const candidate = this.members.find((each) => each.learner);
    if (candidate)
      return { kind: this.members.length === 6 ? "promote-to-even" : "promote", id: candidate.id };
    const source = this.members.find(({ site }) => site === "source");
    const joined = this.members.filter(({ site }) => site === "destination").length;
    return joined === 3 && source ? { kind: "remove", id: source.id } : { kind: "add-learner" };
  }

  /** The next step of its undo. */
  #back(): Step {
    return { kind: "remove", id: this.members.findLast(({ site }) => site === "destination")?.id ?? "none" };
  }

  #addLearner(): void {
    const id = `d${this.#joined}`;
    if (this.members.some((each) => each.learner)) return;
    this.#joined += 1;
    this.members = [...this.members, { ...learner(id), healthy: !this.#down.has(id) }];
  }
}

describe("whatever happens", () => {
  test("no step that is allowed takes the quorum away", () => {
    const landed = new Set<string>();
    fc.assert(
      fc.property(
        startArbitrary,
        fc.array(eventArbitrary, { maxLength: 40, size: "max" }),
        (start, events) => {
          const world = new World(start);
          for (const event of events) world.run(event);
          for (const change of world.changes) landed.add(change);
        },
      ),
      { numRuns: 5_000 },
    );
    // The property would hold of a planner that refuses everything: each step of the way must have been made.
    const way = ["3+0 3+1", "3+1 3+2", "3+2 3+3", "3+3 2+3", "2+3 1+3", "1+3 0+3", "3+3 3+2", "3+1 3+0"];
    expect([...landed]).toEqual(expect.arrayContaining(way));
  });

  const membersArbitrary = fc
    .uniqueArray(idArbitrary, { minLength: 1 })
    .chain((chosen) =>
      fc.tuple(
        ...chosen.map((id) =>
          fc
            .record({ learner: fc.boolean(), healthy: fc.boolean(), leader: fc.constant(false) })
            .map((change) => member(id, change)),
        ),
      ),
    );

  test("a cut between the sites leaves one of them working after every step but the even one", () => {
    fc.assert(
      fc.property(membersArbitrary, stepArbitrary, (members, step) => {
        const { refusals: found, before, after } = judgeStep(members, step, proven);
        const changed = before.voters !== after.voters;
        if (found.length > 0 || !changed || step.kind === "promote-to-even") return;
        expect(after.survivors).not.toEqual([]);
      }),
      { numRuns: 2_000 },
    );
  });

  test("etcd's own check refuses nothing that is allowed here", () => {
    fc.assert(
      fc.property(membersArbitrary, stepArbitrary, (members, step) => {
        const { refusals: found, before, after } = judgeStep(members, step, proven);
        if (found.length > 0 || before.voters === after.voters) return;
        // server/etcdserver/server.go, mayRemoveMember; a member that is down may go at any time.
        const target = step.kind === "remove" ? members.find(({ id }) => id === step.id) : undefined;
        const active = target?.healthy === true;
        if (active)
          expect(before.healthy - 1).toBeGreaterThanOrEqual(1 + Math.floor((before.voters - 1) / 2));
        // membership/cluster.go, IsReadyToPromoteMember.
        if (step.kind !== "remove") expect(after.healthy).toBeGreaterThanOrEqual(after.needed);
      }),
      { numRuns: 2_000 },
    );
  });
});
