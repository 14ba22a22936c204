import { expect } from "vitest";
import { CONFIG_MAPS, configMap } from "../harness/objects.ts";
import type { KubeObject, Objects } from "../harness/objects.ts";
import { CRDS, crd } from "../harness/tenant.ts";
import { API, makeNamespace } from "./oddity.ts";
import type { Oddity } from "./oddity.ts";

/** Things that are being deleted before the move, while it runs, and that something holds. */
export function oddDeletions(): Oddity[] {
  return [heldObject(), heldNamespace(), deletedNamespaces(), heldCrd(), deletedCrds()];
}

const FINALIZER = "odd.rehome.test/hold";
const held = { finalizers: [FINALIZER] };

async function release(objects: Objects, path: string): Promise<void> {
  await objects.patch(path, { metadata: { finalizers: null } });
}

const isBeingDeleted = (found: { metadata: object } | undefined) =>
  found !== undefined && "deletionTimestamp" in found.metadata;

function isEstablished(found: KubeObject | undefined): boolean {
  const conditions = (found?.status?.["conditions"] ?? []) as { type: string; status: string }[];
  return conditions.some(({ type, status }) => type === "Established" && status === "True");
}

function heldObject(): Oddity {
  const path = `${CONFIG_MAPS}/held`;
  return {
    what: "a deleted object that a finalizer holds",
    async before({ objects }) {
      await objects.create(CONFIG_MAPS, { metadata: { name: "held", ...held }, data: { a: "1" } });
      await objects.remove(path);
    },
    async after({ objects }) {
      const found = await objects.get(path);
      expect(isBeingDeleted(found)).toBe(true);
      expect(found.data).toEqual({ a: "1" });
      await release(objects, path);
      await objects.untilGone(path);
    },
  };
}

/** The namespace controllers of both shards see it: neither may do more than the tenant asked for. */
function heldNamespace(): Oddity {
  const namespace = `${API}/namespaces/held`;
  const path = `${namespace}/configmaps/held`;
  return {
    what: "a namespace whose deletion a finalizer in it holds",
    async before({ objects }) {
      await makeNamespace(objects, "held");
      await objects.create(`${namespace}/configmaps`, configMap("swept", {}));
      await objects.create(`${namespace}/configmaps`, {
        metadata: { name: "held", ...held },
        data: { a: "1" },
      });
      await objects.remove(namespace);
      await objects.untilGone(`${namespace}/configmaps/swept`);
      await objects.until(path, isBeingDeleted);
    },
    async after({ objects }) {
      expect((await objects.get(path)).data).toEqual({ a: "1" });
      expect(isBeingDeleted(await objects.get(namespace))).toBe(true);
      await release(objects, path);
      await objects.untilGone(namespace);
    },
  };
}

async function fillNamespace(objects: Objects, name: string): Promise<void> {
  await makeNamespace(objects, name);
  const path = `${API}/namespaces/${name}/configmaps`;
  await Promise.all(
    Array.from({ length: 40 }, async (_, i) => await objects.create(path, configMap(`cm-${i}`, {}))),
  );
}

function deletedNamespaces(): Oddity {
  const names = ["doomed-early", "doomed-late"];
  return {
    what: "full namespaces that are deleted while the move runs",
    async before({ objects }) {
      for (const name of names) await fillNamespace(objects, name);
    },
    async beforeVerify({ objects }) {
      await objects.remove(`${API}/namespaces/doomed-early`);
    },
    async beforeCutover({ objects }) {
      await objects.remove(`${API}/namespaces/doomed-late`);
    },
    async after({ objects }) {
      for (const name of names) {
        await objects.untilGone(`${API}/namespaces/${name}`);
        expect((await objects.list(`${API}/namespaces/${name}/configmaps`)).items).toEqual([]);
      }
    },
  };
}

const DOOMED = "doomed.rehome.test";

async function fillCrd(objects: Objects, plural: string, kind: string, metadata: object): Promise<string> {
  await objects.create(CRDS, crd(DOOMED, plural, kind));
  // Served before it is established; a CRD that is deleted until then leaves its objects behind, moved or not.
  await objects.until(`${CRDS}/${plural}.${DOOMED}`, isEstablished);
  const path = `/apis/${DOOMED}/v1/namespaces/default/${plural}`;
  for (let i = 0; i < 10; i += 1) {
    await objects.create(path, {
      apiVersion: `${DOOMED}/v1`,
      kind,
      metadata: { name: `x-${i}`, ...(i === 0 && metadata) },
      spec: { i },
    });
  }
  return path;
}

function heldCrd(): Oddity {
  const name = `${CRDS}/kites.${DOOMED}`;
  let path = "";
  return {
    what: "a CRD whose deletion an object of it holds",
    async before({ objects }) {
      path = await fillCrd(objects, "kites", "Kite", held);
      await objects.remove(name);
      await objects.untilGone(`${path}/x-1`);
      await objects.until(`${path}/x-0`, isBeingDeleted);
    },
    async after({ objects }) {
      expect((await objects.get(`${path}/x-0`)).spec).toEqual({ i: 0 });
      await release(objects, `${path}/x-0`);
      await objects.untilGone(name);
    },
  };
}

function deletedCrds(): Oddity {
  const plurals = ["rockets", "sparks"];
  return {
    what: "CRDs with objects that are deleted while the move runs",
    async before({ objects }) {
      await fillCrd(objects, "rockets", "Rocket", {});
      await fillCrd(objects, "sparks", "Spark", {});
    },
    async beforeVerify({ objects }) {
      await objects.remove(`${CRDS}/rockets.${DOOMED}`);
    },
    async beforeCutover({ objects }) {
      await objects.remove(`${CRDS}/sparks.${DOOMED}`);
    },
    async after({ objects }) {
      for (const plural of plurals) await objects.untilGone(`${CRDS}/${plural}.${DOOMED}`);
      // The same API again: nothing of the first may come back with it.
      const path = `/apis/${DOOMED}/v1/namespaces/default/rockets`;
      await objects.create(CRDS, crd(DOOMED, "rockets", "Rocket"));
      const apiVersion = `${DOOMED}/v1`;
      await objects.create(path, { apiVersion, kind: "Rocket", metadata: { name: "new" }, spec: {} });
      expect((await objects.list(path)).items.map(({ metadata }) => metadata.name)).toEqual(["new"]);
    },
  };
}
