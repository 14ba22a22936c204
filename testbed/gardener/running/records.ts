import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import type { BindServers } from "../../bind.ts";
import { findProgram } from "../../programs/find.ts";

/**
 * Writes records as provider-local's controller of DNSRecords does: one update that deletes what is there and adds what
 * is wanted, with nsupdate.
 */
export async function recordWriter(
  bind: BindServers,
): Promise<(name: string, values: readonly string[], ttlSeconds: number) => Promise<void>> {
  const program = await findProgram("nsupdate");
  const { name: keyName, algorithm, secretFile } = bind.tsig;
  const secret = readFileSync(secretFile, "utf8").trim();
  return async (name, values, ttlSeconds) => {
    const lines = [
      `server ${bind.servers[0].replace(":", " ")}`,
      `zone ${bind.zone}`,
      `key ${algorithm}:${keyName} ${secret}`,
      `update delete ${name} A`,
      ...values.map((value) => `update add ${name} ${ttlSeconds} A ${value}`),
      "send",
      "",
    ];
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const child = execFile(program, ["-v"], (error) => (error ? reject(error) : resolve()));
    child.stdin?.end(lines.join("\n"));
    await promise;
  };
}
