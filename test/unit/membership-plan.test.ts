import { describe, expect, test } from "vitest";
import { afterStep, judgeStep, quorumOf } from "../../etcd/membership/plan.ts";
import type { PlannedMember, Step } from "../../etcd/membership/plan.ts";
import { learner, member, proven, voters } from "./membership-world.ts";

const five = voters("s0", "s1", "s2", "d0", "d1");

/** Voters that are down. */
const lost = (...ids: string[]) => ids.map((id) => member(id, { healthy: false }));

/** The five with one of them down. */
const down = (id: string) => [...five.filter((each) => each.id !== id), ...lost(id)];

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
