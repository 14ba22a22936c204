import type { V1Pod } from "@kubernetes/client-node";
import { ifFound } from "./api.ts";
import type { NodeApi } from "./api.ts";
import type { EnvironmentSources } from "./environment.ts";

type Values = Record<string, Buffer>;

/** Keys of a ConfigMap with their bytes; undefined when there is none. */
export async function configMapValues(
  api: NodeApi,
  namespace: string,
  name: string,
): Promise<Values | undefined> {
  const found = await ifFound(api.core.readNamespacedConfigMap({ name, namespace }));
  if (found === undefined) return undefined;
  return { ...decoded(found.data, "utf8"), ...decoded(found.binaryData, "base64") };
}

/** Keys of a Secret with their bytes; undefined when there is none. */
export async function secretValues(
  api: NodeApi,
  namespace: string,
  name: string,
): Promise<Values | undefined> {
  const found = await ifFound(api.core.readNamespacedSecret({ name, namespace }));
  return found === undefined ? undefined : decoded(found.data, "base64");
}

function decoded(texts: Record<string, string> | undefined, encoding: BufferEncoding): Values {
  return Object.fromEntries(
    Object.entries(texts ?? {}).map(([key, text]) => [key, Buffer.from(text, encoding)]),
  );
}

/**
 * Sources of a pod's environment, read from the API server at each use: an
 * object written before the pod is seen, however late its own event comes.
 */
export function environmentSources(api: NodeApi, pod: V1Pod): EnvironmentSources {
  const namespace = pod.metadata?.namespace ?? "default";
  return {
    configMapKey: async (name, key) => (await configMapValues(api, namespace, name))?.[key]?.toString(),
    secretKey: async (name, key) => (await secretValues(api, namespace, name))?.[key]?.toString(),
    services: async () => {
      const { items } = await api.core.listNamespacedService({ namespace });
      const kubernetes = await ifFound(
        api.core.readNamespacedService({ name: "kubernetes", namespace: "default" }),
      );
      return kubernetes === undefined ? items : [kubernetes, ...items];
    },
  };
}
