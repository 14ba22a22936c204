import { randomBytes } from "node:crypto";
import { expect } from "vitest";
import type { Store } from "../../../etcd/store.ts";
import { put } from "../../../etcd/store.ts";
import { CONFIG_MAPS, SECRETS, configMap } from "../harness/objects.ts";
import type { Objects } from "../harness/objects.ts";
import { GADGETS, GROUP } from "../harness/tenant.ts";
import { API, makeNamespace } from "./oddity.ts";
import type { Oddity, Place } from "./oddity.ts";

/** Odd objects: large, binary, of odd names, short-lived. */
export function oddObjects(): Oddity[] {
  return [largeObjects(), binaryValues(), oddNames(), shortLives()];
}

const gadget = (name: string, spec: object) => ({
  apiVersion: `${GROUP}/v1`,
  kind: "Gadget",
  metadata: { name },
  spec,
});

/** etcd takes requests of 1.5 MiB, and rehome's transaction is a little larger than the API server's. */
const LARGE = 1_565_000;

function largeObjects(): Oddity {
  const payload = randomBytes(LARGE / 2).toString("hex");
  const specs = [0, 1, 2, 3].map((number) => ({ number, payload }));
  return {
    what: "objects of 1.5 MB",
    async before({ objects }) {
      for (const spec of specs) await objects.create(GADGETS, gadget(`large-${spec.number}`, spec));
    },
    async beforeCutover({ objects }) {
      await objects.patch(`${GADGETS}/large-0`, { spec: { number: 10 } });
    },
    async after({ objects }) {
      for (const spec of specs) {
        const found = await objects.get(`${GADGETS}/large-${spec.number}`);
        expect(found.spec?.["payload"] === spec.payload).toBe(true);
      }
      expect((await objects.get(`${GADGETS}/large-0`)).spec?.["number"]).toBe(10);
    },
  };
}

function binaryValues(): Oddity {
  const bytes = randomBytes(700_000);
  let before: Buffer[] = [];
  const keys = ({ cluster }: Place) => [
    `/registry/core/configmaps/${cluster}/default/binary`,
    `/registry/core/secrets/${cluster}/default/binary`,
  ];
  const valuesIn = async (store: Store, place: Place) =>
    await Promise.all(keys(place).map(async (key) => (await store.get(key)).entry!.value));
  return {
    what: "binary values, stored as protobuf, and encrypted",
    async before(place) {
      const metadata = { name: "binary" };
      const binary = bytes.toString("base64");
      await place.objects.create(CONFIG_MAPS, { metadata, binaryData: { binary } });
      await place.objects.create(SECRETS, { metadata, data: { binary } });
      before = await valuesIn(place.bed.store(place.from), place);
      const starts = before.map((value) => value.toString("latin1", 0, 8));
      expect(starts).toEqual([expect.stringMatching(/^k8s\0/), "k8s:enc:"]);
    },
    async after(place) {
      const after = await valuesIn(place.bed.store(place.to), place);
      expect(after.map((value, i) => value.equals(before[i]!))).toEqual([true, true]);
      const found = await place.objects.get(`${SECRETS}/binary`);
      expect(Buffer.from(found.data!["binary"]!, "base64").equals(bytes)).toBe(true);
    },
  };
}

const ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

function oddNames(): Oddity {
  const roles = ["system:odd:role", "a:b.c:d", "customresources", "f".repeat(64)];
  const names = ["a.b.c-d.e", "customresources", "cluster", "f".repeat(64), "1.2.3"];
  const namespaces = ({ cluster }: Place) => ["customresources", "core", "f".repeat(63), cluster];
  return {
    what: "names with dots and colons, and names that look like segments of keys",
    async before(place) {
      const { objects } = place;
      for (const name of roles) {
        await objects.create(ROLES, {
          apiVersion: "rbac.authorization.k8s.io/v1",
          kind: "ClusterRole",
          metadata: { name },
          rules: [],
        });
      }
      for (const name of names) {
        await objects.create(CONFIG_MAPS, configMap(name, { name }));
        await objects.create(GADGETS, gadget(name, { name }));
      }
      for (const namespace of namespaces(place)) {
        await makeNamespace(objects, namespace);
        for (const name of [...names, place.cluster]) {
          await objects.create(`${API}/namespaces/${namespace}/configmaps`, configMap(name, { name }));
        }
      }
    },
    async after(place) {
      const { objects } = place;
      for (const name of roles) expect((await objects.get(`${ROLES}/${name}`)).metadata.name).toBe(name);
      for (const name of names) {
        expect((await objects.get(`${CONFIG_MAPS}/${name}`)).data).toEqual({ name });
        expect((await objects.get(`${GADGETS}/${name}`)).spec).toEqual({ name });
      }
      for (const namespace of namespaces(place)) {
        for (const name of [...names, place.cluster]) {
          const { data } = await objects.get(`${API}/namespaces/${namespace}/configmaps/${name}`);
          expect(data).toEqual({ name });
        }
      }
    },
  };
}

const EVENTS = `${API}/namespaces/default/events`;

async function makeEvent(objects: Objects, name: string): Promise<void> {
  await objects.create(EVENTS, {
    apiVersion: "v1",
    kind: "Event",
    metadata: { name },
    involvedObject: { kind: "ConfigMap", namespace: "default", name: "settings-alpha" },
    reason: "Odd",
    message: "odd",
    type: "Normal",
  });
}

function shortLives(): Oddity {
  const key = ({ cluster }: Place, name: string) => `/registry/core/events/${cluster}/default/${name}`;
  const makeShortLived = async (place: Place, name: string, TTL: number) => {
    const store = place.bed.store(place.from);
    const value = (await store.get(key(place, "lasting"))).entry!.value;
    const { ID } = await store.leases.leaseGrant({ TTL, ID: 0 });
    await store.transact([], [put(key(place, name), value, ID)]);
  };
  return {
    what: "events that expire, before the move, while it runs and after it",
    async before(place) {
      await makeEvent(place.objects, "lasting");
      await makeShortLived(place, "gone-before", 1);
    },
    async beforeVerify(place) {
      await makeShortLived(place, "gone-meanwhile", 5);
    },
    async beforeCutover(place) {
      await makeShortLived(place, "gone-at-cutover", 2);
    },
    async after(place) {
      const { entry } = await place.bed.store(place.to).get(key(place, "lasting"));
      const { TTL } = await place.bed.store(place.to).leases.leaseTimeToLive({ ID: entry!.lease });
      expect(Number(TTL)).toBeGreaterThan(60);
      for (const name of ["gone-before", "gone-meanwhile", "gone-at-cutover"]) {
        await place.objects.untilGone(`${EVENTS}/${name}`);
        expect((await place.bed.store(place.from).get(key(place, name))).entry).toBeUndefined();
      }
      await makeEvent(place.objects, "later");
    },
  };
}
