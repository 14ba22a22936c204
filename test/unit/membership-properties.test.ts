import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { judgeStep } from "../../etcd/membership/plan.ts";
import type { Step } from "../../etcd/membership/plan.ts";
import { World, learner, member, proven, voters } from "./membership-world.ts";
import type { Event, Fate } from "./membership-world.ts";

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
/** Any cluster at all, also such as no move leads to. */
const membersArbitrary = fc
  .uniqueArray(idArbitrary, { minLength: 1 })
  .chain((ids) =>
    fc.tuple(
      ...ids.map((id) =>
        fc.record({ learner: fc.boolean(), healthy: fc.boolean() }).map((change) => member(id, change)),
      ),
    ),
  );

describe("whatever happens", () => {
  test("no step that is allowed takes the quorum away", () => {
    const landed = new Set<string>();
    const property = fc.property(
      startArbitrary,
      fc.array(eventArbitrary, { maxLength: 40, size: "max" }),
      (start, events) => {
        const world = new World(start);
        for (const event of events) world.run(event);
        for (const change of world.changes) landed.add(change);
      },
    );
    expect(counterexample(property)).toBeUndefined();
    // The property would hold of a planner that refuses everything: each step of the way must have been made.
    const way = ["3+0 3+1", "3+1 3+2", "3+2 3+3", "3+3 2+3", "2+3 1+3", "1+3 0+3", "3+3 3+2", "3+1 3+0"];
    expect([...landed]).toEqual(expect.arrayContaining(way));
  });

  test("a cut between the sites leaves one of them working after every step but the even one", () => {
    const property = fc.property(membersArbitrary, stepArbitrary, (members, step) => {
      const { refusals, before, after } = judgeStep(members, step, proven);
      const isVoterChange = refusals.length === 0 && before.voters !== after.voters;
      return !isVoterChange || step.kind === "promote-to-even" || after.survivors.length > 0;
    });
    expect(counterexample(property)).toBeUndefined();
  });

  test("etcd's own check refuses nothing that is allowed here", () => {
    const property = fc.property(membersArbitrary, stepArbitrary, (members, step) => {
      const { refusals, before, after } = judgeStep(members, step, proven);
      if (refusals.length > 0 || before.voters === after.voters) return true;
      // membership/cluster.go, IsReadyToPromoteMember.
      if (step.kind !== "remove") return after.healthy >= after.needed;
      // server/etcdserver/server.go, mayRemoveMember: a member that is down may go at any time.
      const isDown = members.some((each) => "id" in step && each.id === step.id && !each.healthy);
      return isDown || before.healthy - 1 >= 1 + Math.floor((before.voters - 1) / 2);
    });
    expect(counterexample(property)).toBeUndefined();
  });
});

/** fast-check's report of a counterexample; undefined when there is none. */
function counterexample<T>(property: fc.IProperty<T>): string | undefined {
  return fc.defaultReportMessage(fc.check(property, { numRuns: 5_000 }));
}
