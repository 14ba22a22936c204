import { setTimeout as delay } from "node:timers/promises";
import { expect } from "vitest";
import type { Answer } from "../../../kubernetes/api-server.ts";
import { Ledger } from "../../../testbed/workload/ledger.ts";
import type { LostWrite, Observed } from "../../../testbed/workload/ledger.ts";
import { CONFIG_MAPS, configMap } from "./objects.ts";
import type { KubeObject, Objects } from "./objects.ts";

/** Clients that never stop, and remember what they were told. */
export interface Churn {
  stop(): Promise<void>;
  /** Writes that the server acknowledged. */
  readonly acknowledged: number;
  /** Expects that what is served is what was acknowledged. */
  expectKept(): Promise<void>;
}

/** Short beside a fence, and long enough to leave the machine to the move, which has every revision to catch up with. */
const PAUSE_MS = 20;
/** No fence stands for so long. */
const READ_FOR_MS = 120_000;
const isSuccess = ({ status }: Answer) => status >= 200 && status <= 299;
const unanswered: Answer = { status: 0, headers: {}, body: "" };

async function send(objects: Objects, input: Parameters<Objects["server"]["request"]>[0]): Promise<Answer> {
  const path = objects.path(input.path);
  return await objects.server.request({ ...input, path, timeoutMs: 5_000 }).catch(() => unanswered);
}

/** Starts `lanes` loops of `step` that end with the step that runs when they are stopped. */
function loops(lanes: number, step: (lane: number) => Promise<void>): () => Promise<void> {
  const stop = new AbortController();
  const lane = async (number: number) => {
    while (!stop.signal.aborted) await step(number);
  };
  const running = Promise.all(Array.from({ length: lanes }, (_, number) => lane(number)));
  return async () => {
    stop.abort();
    await running;
  };
}

/** One object that many clients change as fast as they are answered, each in a field of its own. */
export async function changeFast(objects: Objects, name: string, lanes: number): Promise<Churn> {
  await objects.create(CONFIG_MAPS, configMap(name, { start: "0" }));
  const sent = Array.from({ length: lanes }, () => 0);
  const known = Array.from({ length: lanes }, () => 0);
  const versions = Array.from({ length: lanes }, () => 0n);
  const backwards: string[] = [];
  const overwritten: string[] = [];
  let acknowledged = 0;
  const stop = loops(lanes, async (lane) => {
    const number = ++sent[lane]!;
    const before = [...known];
    const body = { data: { [`lane-${lane}`]: String(number) } };
    const answer = await send(objects, { method: "PATCH", path: `${CONFIG_MAPS}/${name}`, body });
    if (!isSuccess(answer)) return;
    known[lane] = number;
    acknowledged += 1;
    const { metadata, data } = JSON.parse(answer.body) as KubeObject;
    // What was acknowledged to the others before this was sent is in the object that this changed.
    for (const [other, least] of before.entries()) {
      const found = Number(data?.[`lane-${other}`] ?? 0);
      if (found < least) overwritten.push(`lane ${other} has ${found}, and ${least} was acknowledged`);
    }
    const version = BigInt(metadata.resourceVersion);
    if (version <= versions[lane]!) backwards.push(`${versions[lane]} to ${version}`);
    versions[lane] = version;
  });
  return {
    stop,
    get acknowledged() {
      return acknowledged;
    },
    async expectKept() {
      const { data } = await objects.get(`${CONFIG_MAPS}/${name}`);
      for (let lane = 0; lane < lanes; lane += 1) {
        const found = Number(data?.[`lane-${lane}`] ?? 0);
        expect(found).toBeGreaterThanOrEqual(known[lane]!);
        expect(found).toBeLessThanOrEqual(sent[lane]!);
      }
      expect(backwards).toEqual([]);
      expect(overwritten).toEqual([]);
    },
  };
}

/** Objects that are deleted and made again under the same name, all the time; each life has its number in it. */
export function rebirths(objects: Objects, names: readonly string[]): Churn {
  const ledger = new Ledger();
  const lost: LostWrite[] = [];
  const uids = new Map<string, string | undefined>();
  const path = (name: string) => `${CONFIG_MAPS}/${name}`;
  const stop = loops(names.length, async (lane) => {
    await delay(PAUSE_MS);
    const name = names[lane]!;
    const uid = uids.get(name);
    const write = ledger.begin(name, uid === undefined ? "put" : "delete", Date.now());
    const body =
      uid === undefined
        ? configMap(name, { life: String(write.number) })
        : { kind: "DeleteOptions", apiVersion: "v1", preconditions: { uid } };
    const answer = await send(objects, {
      ...(uid === undefined ? { method: "POST", path: CONFIG_MAPS } : { method: "DELETE", path: path(name) }),
      body,
    });
    if (isSuccess(answer)) {
      ledger.acknowledge(write);
      uids.set(name, uid === undefined ? (JSON.parse(answer.body) as KubeObject).metadata.uid : undefined);
      return;
    }
    // What was refused has changed nothing; all else may have taken effect: what is read now tells.
    if (answer.status >= 400 && answer.status <= 499) ledger.refuse(write);
    const found = await read(name);
    const contradicted = ledger.settle(name, lifeOf(found));
    if (contradicted !== undefined) lost.push(contradicted);
    uids.set(name, found?.metadata.uid);
  });
  const read = async (name: string): Promise<KubeObject | undefined> => {
    for (const end = performance.now() + READ_FOR_MS; performance.now() < end;) {
      const answer = await send(objects, { path: path(name) });
      if (isSuccess(answer)) return JSON.parse(answer.body) as KubeObject;
      if (answer.status === 404) return undefined;
      await delay(PAUSE_MS);
    }
    throw new Error(`${name} cannot be read`);
  };
  return {
    stop,
    get acknowledged() {
      return ledger.acknowledgedCount;
    },
    async expectKept() {
      expect(lost).toEqual([]);
      for (const name of names) {
        const found = await read(name);
        expect(ledger.judge(name, lifeOf(found))).toBeUndefined();
        expect(found?.metadata.uid).toBe(uids.get(name));
      }
    },
  };
}

function lifeOf(found: KubeObject | undefined): Observed {
  return found === undefined ? null : Number(found.data?.["life"]);
}
