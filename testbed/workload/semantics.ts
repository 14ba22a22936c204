import { awaitDeletions } from "./deletions.ts";
import { finalizer, missingOf } from "./fill.ts";
import type { Filled, Filling, OwnedFamily } from "./fill.ts";
import { isSuccess, wordsOf } from "./http.ts";
import type { FrontProxy } from "./front-proxy.ts";
import { makeObject, objectPath, payloadOf, resources } from "./resources.ts";

/**
 * One family in so many loses its owner: spread over all, since whoever forgets objects forgets a row of them. Odd,
 * because every second owner is a custom resource.
 */
const familyEvery = 3;
const examples = 5;
const gcWithinMs = 60_000;

/**
 * Whether a workspace works as an API server's should: everything that was
 * filled in is there, all APIs are served by path and by id, deleting an owner
 * deletes its dependents, a finalizer holds its object. Deletes some of the
 * filling, so it can be asked a few times only.
 *
 * @returns what does not work, in words
 */
export async function checkSemantics(
  frontProxy: FrontProxy,
  workspace: { readonly path: string; readonly cluster: string },
  filling: Filling,
): Promise<string[]> {
  const { path, cluster } = workspace;
  const missing = await missingOf(frontProxy, cluster, filling.objects);
  return [
    ...missing.slice(0, examples),
    ...(missing.length > examples
      ? [`and ${missing.length - examples} more of ${filling.objects.length} objects`]
      : []),
    ...(await checkServed(frontProxy, path)),
    ...(await checkServed(frontProxy, cluster)),
    ...(await checkGarbageCollection(frontProxy, cluster, takeSome(filling.families))),
    ...(await checkFinalizer(frontProxy, cluster, filling.held.pop())),
  ];
}

/** Creates, reads, lists and deletes an object of every API. */
async function checkServed(frontProxy: FrontProxy, cluster: string): Promise<string[]> {
  const defects: string[] = [];
  for (const resource of resources) {
    const [namespace, name] = ["default", "probe-after-the-move"];
    const collection = objectPath(cluster, resource, namespace);
    const body = makeObject(resource, { name, namespace }, { version: 1, payload: payloadOf(name) });
    const requests = [
      { method: "POST", path: collection, body },
      { method: "GET", path: `${collection}/${name}` },
      { method: "GET", path: `${collection}?limit=1` },
      { method: "DELETE", path: `${collection}/${name}` },
    ] as const;
    for (const request of requests) {
      const { status, body: answer } = await frontProxy.send(request);
      if (isSuccess(status)) continue;
      defects.push(`${request.method} ${request.path} answers ${status}: ${wordsOf(answer)}`);
    }
  }
  return defects;
}

/** Deletes owners, and expects the garbage collector to delete what they own, down to the last level. */
async function checkGarbageCollection(
  frontProxy: FrontProxy,
  cluster: string,
  families: readonly OwnedFamily[],
): Promise<string[]> {
  const dependents = families.flatMap((family) => family.dependents);
  const left = await awaitDeletions(frontProxy, cluster, dependents, gcWithinMs, async () => {
    for (const { owner } of families) await remove(frontProxy, cluster, owner);
  });
  const named = left
    .slice(0, examples)
    .map((what) => `${what}, ${gcWithinMs / 1000} s after its owner was deleted`);
  const rest = left.length - named.length;
  return rest > 0 ? [...named, `and ${rest} more of ${dependents.length} dependents`] : named;
}

/** Takes some out of the list. */
function takeSome(families: OwnedFamily[]): OwnedFamily[] {
  const { taken = [], left = [] } = Object.groupBy(families, (_, index) =>
    index % familyEvery === 0 ? "taken" : "left",
  );
  families.splice(0, families.length, ...left);
  return taken;
}

async function checkFinalizer(
  frontProxy: FrontProxy,
  cluster: string,
  held: Filled | undefined,
): Promise<string[]> {
  if (held === undefined) return [];
  const path = pathOf(cluster, held);
  await remove(frontProxy, cluster, held);
  const { status } = await frontProxy.send({ method: "GET", path });
  if (status !== 200) return [`${held.name} is gone although its finalizer ${finalizer} holds it`];
  const left = await awaitDeletions(frontProxy, cluster, [held], gcWithinMs, async () => {
    await frontProxy.json({ method: "PATCH", path, body: { metadata: { finalizers: null } } });
  });
  return left.map((what) => `${what}, although its finalizer was taken away`);
}

async function remove(frontProxy: FrontProxy, cluster: string, object: Filled): Promise<void> {
  // Background, so that it is the garbage collector who deletes the dependents.
  const body = { apiVersion: "v1", kind: "DeleteOptions", propagationPolicy: "Background" };
  await frontProxy.json({ method: "DELETE", path: pathOf(cluster, object), body });
}

function pathOf(cluster: string, { resource, namespace, name }: Filled): string {
  return objectPath(cluster, resource, namespace, name);
}
