import { setTimeout as delay } from "node:timers/promises";
import { TypedSearchAttributes } from "@temporalio/common";
import type { NativeConnection } from "@temporalio/worker";
import { SEARCH_ATTRIBUTES } from "../workflows/engine/names.ts";

type Types = Record<string, number>;

/** Servers take a while to tell all their parts about a new attribute. */
const DEADLINE_MS = 60_000;

/**
 * Registers the search attributes that every move sets, where they are missing, and waits until they can be used.
 * Without them a workflow's first task would fail for ever.
 *
 * @throws Error with the command to run by hand when the server does not let this client register them, or when an
 *   attribute of that name has another type.
 */
export async function ensureSearchAttributes(
  connection: NativeConnection,
  namespace: string,
  deadlineMs: number = DEADLINE_MS,
): Promise<void> {
  const wanted = wantedTypes();
  const missing = missingOf(wanted, await registered(connection, namespace));
  if (Object.keys(missing).length > 0) await register(connection, namespace, missing);
  await waitUntilUsable(connection, namespace, wanted, Date.now() + deadlineMs);
}

function wantedTypes(): Types {
  return Object.fromEntries(
    Object.values(SEARCH_ATTRIBUTES).map(({ name, type }) => [name, INDEXED_VALUE_TYPES[type]]),
  );
}

/** `temporal.api.enums.v1.IndexedValueType`, of the types in use. */
const INDEXED_VALUE_TYPES = { KEYWORD: 2, DOUBLE: 4 } as const;

async function registered(connection: NativeConnection, namespace: string): Promise<Types> {
  const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace });
  return { ...customAttributes };
}

function missingOf(wanted: Types, present: Types): Types {
  for (const [name, type] of Object.entries(wanted)) {
    const found = present[name];
    if (found !== undefined && found !== type) {
      throw new Error(
        `search attribute ${name} exists with another type: remove it, or use another namespace`,
      );
    }
  }
  return Object.fromEntries(Object.entries(wanted).filter(([name]) => present[name] === undefined));
}

async function register(connection: NativeConnection, namespace: string, missing: Types): Promise<void> {
  try {
    await connection.operatorService.addSearchAttributes({ namespace, searchAttributes: missing });
  } catch (error) {
    // Two workers that start together both find them missing; the second is told that they exist.
    if (Object.keys(missingOf(missing, await registered(connection, namespace))).length === 0) return;
    throw new Error(`search attributes could not be registered; run: ${commandFor(namespace, missing)}`, {
      cause: error,
    });
  }
}

function commandFor(namespace: string, missing: Types): string {
  const words = Object.values(SEARCH_ATTRIBUTES)
    .filter(({ name }) => missing[name] !== undefined)
    .map(({ name, type }) => `--name ${name} --type ${TypedSearchAttributes.toMetadataType(type)}`);
  return `temporal operator search-attribute create --namespace ${namespace} ${words.join(" ")}`;
}

async function waitUntilUsable(
  connection: NativeConnection,
  namespace: string,
  wanted: Types,
  deadline: number,
): Promise<void> {
  const query = Object.keys(wanted)
    .map((name) => `${name} IS NULL`)
    .join(" AND ");
  for (;;) {
    try {
      await connection.workflowService.countWorkflowExecutions({ namespace, query });
      return;
    } catch (error) {
      if (Date.now() > deadline) {
        throw new Error(`search attributes are registered in ${namespace}, but cannot be used`, {
          cause: error,
        });
      }
      // The server offers nothing to wait on: its parts refresh their caches on their own.
      await delay(200);
    }
  }
}
