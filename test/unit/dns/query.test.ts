import { randomBytes } from "node:crypto";
import { createSocket } from "node:dgram";
import type { RemoteInfo, Socket } from "node:dgram";
import { once } from "node:events";
import { afterEach, describe, expect, it } from "vitest";
import dnsPacket from "dns-packet";
import { RefusedError, ServerFailureError, UnreachableError } from "../../../dns/errors.ts";
import { query } from "../../../dns/query.ts";

const name = "api.demo.rehome.example";
const options = { timeoutMs: 2_000, attempts: 2 };
const sockets: Socket[] = [];

afterEach(() => {
  for (const socket of sockets.splice(0)) socket.close();
});

/** A sender of answers that no correct server sends. */
async function answering(answers: (request: Buffer) => readonly Buffer[]) {
  const socket = createSocket("udp4");
  sockets.push(socket);
  socket.on("message", (request: Buffer, from: RemoteInfo) => {
    for (const answer of answers(request)) socket.send(answer, from.port, from.address);
  });
  socket.bind(0, "127.0.0.1");
  await once(socket, "listening");
  return { host: "127.0.0.1", port: socket.address().port };
}

function answerTo(request: Buffer, changes: dnsPacket.Packet = {}): Buffer {
  const { id, questions } = dnsPacket.decode(request);
  const answers = [{ name, type: "A" as const, ttl: 60, data: "10.0.0.1" }];
  return dnsPacket.encode({ id, type: "response", questions, answers, ...changes });
}

describe("query", () => {
  it("passes over datagrams that belong to no question of ours", async () => {
    const server = await answering((request) => {
      const otherId = answerTo(request);
      otherId.writeUInt16BE(otherId.readUInt16BE(0) ^ 1, 0);
      return [Buffer.alloc(0), Buffer.alloc(5), otherId, answerTo(request)];
    });
    expect(await query(server, name, "A", options)).toMatchObject({ status: "found", values: ["10.0.0.1"] });
  });

  it("tells unreachable when only garbage comes", async () => {
    const server = await answering(() => [Buffer.alloc(3)]);
    await expect(query(server, name, "A", { ...options, timeoutMs: 100 })).rejects.toThrow(UnreachableError);
  });

  it("tells a failure of the server when its answer is cut short or garbage", async () => {
    const cut = await answering((request) => [answerTo(request).subarray(0, -1)]);
    await expect(query(cut, name, "A", options)).rejects.toThrow(/malformed message/);
    const garbage = await answering((request) => [
      Buffer.concat([request.subarray(0, 2), Buffer.alloc(2), randomBytes(40)]),
    ]);
    await expect(query(garbage, name, "A", options)).rejects.toThrow(ServerFailureError);
  });

  it.each([
    ["of another name", { questions: [{ name: "other.example", type: "A" as const }] }],
    ["of another type", { questions: [{ name, type: "AAAA" as const }] }],
    ["that is a question itself", { type: "query" as const }],
  ])("refuses an answer %s", async (_, changes) => {
    const server = await answering((request) => [answerTo(request, changes)]);
    await expect(query(server, name, "A", options)).rejects.toThrow(/answered another question/);
  });

  it.each([
    [2, ServerFailureError, "answered SERVFAIL"],
    [5, RefusedError, "REFUSED"],
  ])("tells response code %d apart", async (flags, kind, words) => {
    const server = await answering((request) => [answerTo(request, { flags, answers: [] })]);
    const error = await query(server, name, "A", options).catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(kind);
    expect((error as Error).message).toContain(words);
  });

  it("asks again when a datagram is lost", async () => {
    let asked = 0;
    const server = await answering((request) => (asked++ === 0 ? [] : [answerTo(request)]));
    expect(await query(server, name, "A", options)).toMatchObject({ status: "found", authoritative: false });
  });
});
