import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { Located } from "../../../etcd/membership/cluster.ts";
import type { ApiServer } from "../../../kubernetes/api-server.ts";
import { getWithCertificate } from "../../https-probe.ts";
import { Server } from "../../process.ts";
import { findProgram } from "../../programs/find.ts";
import { demo } from "../garden-objects.ts";
import type { ControlPlanePki } from "./pki.ts";
import { CLIENT_PORT, PEER_PORT, innerName, memberBalancerAddress, podAddress } from "./places.ts";
import type { EtcdName, SeedSide } from "./places.ts";

interface Etcd {
  readonly spec: {
    readonly memberNamePrefix?: string;
    readonly etcd: {
      readonly additionalAdvertisedURLs?: {
        readonly peerURLs?: {
          readonly members: readonly { readonly memberName: string; readonly urls: readonly string[] }[];
        };
      };
      readonly bootstrapWithExistingCluster?: {
        readonly members: readonly { readonly name: string; readonly peerUrls: readonly string[] }[];
      };
    };
  };
}

export interface EtcdPodOptions {
  readonly dir: string;
  readonly api: ApiServer;
  readonly pki: ControlPlanePki;
  /** `/etc/hosts` of the seed. */
  readonly hosts: string;
  readonly side: SeedSide;
  readonly etcd: EtcdName;
  readonly ordinal: number;
  /** Tells data apart: that of a claim which was deleted does not come back. */
  readonly claim: string;
}

/** So that the inner names lead into the own seed: those of the other seed are equal. */
const IN_SEED = ["-m", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"'];

/** A pod of druid's: etcd as the Etcd says, and beside it {@link tend}. */
export class EtcdPod {
  readonly endpoint: string;
  readonly #options: EtcdPodOptions;
  #server: Server | undefined;
  #name = "";
  #advertised = "";
  #isStopped = false;

  constructor(options: EtcdPodOptions) {
    this.#options = options;
    this.endpoint = `https://${podAddress(options.side, options.etcd, options.ordinal)}:${CLIENT_PORT}`;
  }

  async start(): Promise<void> {
    const { api, etcd } = this.#options;
    const path = `/apis/druid.gardener.cloud/v1alpha1/namespaces/${demo.namespace}/etcds/${etcd}`;
    const { spec } = await api.json<Etcd>({ path });
    this.#name = this.#nameOf(spec);
    this.#advertised = this.#urlsOf(spec).get(this.#name) ?? this.#innerUrl(this.#options.ordinal);
    await this.#launch(this.#initialCluster(spec), spec.etcd.bootstrapWithExistingCluster !== undefined);
  }

  async isReady(): Promise<boolean> {
    if (this.#server?.isRunning !== true) return false;
    const { etcdClient } = this.#options.pki;
    return await getWithCertificate(`${this.endpoint}/readyz`, etcdClient, AbortSignal.timeout(2_000)).then(
      () => true,
      () => false,
    );
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#server?.stop();
  }

  #nameOf({ memberNamePrefix }: Etcd["spec"]): string {
    const pod = `${this.#options.etcd}-${this.#options.ordinal}`;
    return memberNamePrefix ? `${memberNamePrefix}-${pod}` : pod;
  }

  #innerUrl(ordinal: number): string {
    return `https://${innerName(this.#options.etcd, ordinal)}:${PEER_PORT}`;
  }

  #urlsOf(spec: Etcd["spec"]): ReadonlyMap<string, string> {
    const members = spec.etcd.additionalAdvertisedURLs?.peerURLs?.members ?? [];
    return new Map(members.map(({ memberName, urls }) => [memberName, urls[0]!]));
  }

  #initialCluster(spec: Etcd["spec"]): string[] {
    const { etcd, ordinal } = this.#options;
    const existing = spec.etcd.bootstrapWithExistingCluster;
    if (existing === undefined)
      return [0, 1, 2].map((number) => `${etcd}-${number}=${this.#innerUrl(number)}`);
    const urls = this.#urlsOf(spec);
    const own = Array.from({ length: ordinal + 1 }, (_, number) =>
      this.#name.replace(/\d$/, String(number)),
    ).map((name) => `${name}=${urls.get(name)}`);
    return [
      ...existing.members.flatMap(({ name, peerUrls }) => peerUrls.map((url) => `${name}=${url}`)),
      ...own,
    ];
  }

  async #launch(initialCluster: readonly string[], joins: boolean): Promise<void> {
    const { dir, pki, hosts, side, etcd, ordinal, claim } = this.#options;
    const hostnames = [podAddress, memberBalancerAddress].map((address) => address(side, etcd, ordinal));
    const listen = (port: number) => hostnames.map((host) => `https://${host}:${port}`).join(",");
    const flags = [
      `--name=${this.#name}`,
      `--data-dir=${join(dir, claim)}`,
      `--listen-client-urls=${listen(CLIENT_PORT)}`,
      `--advertise-client-urls=${this.endpoint}`,
      `--listen-peer-urls=${listen(PEER_PORT)}`,
      `--initial-advertise-peer-urls=${this.#advertised}`,
      `--initial-cluster=${initialCluster.join(",")}`,
      `--initial-cluster-state=${joins ? "existing" : "new"}`,
      `--initial-cluster-token=${etcd}`,
      `--cert-file=${pki.etcdServer.cert}`,
      `--key-file=${pki.etcdServer.key}`,
      `--trusted-ca-file=${pki.etcdClient.ca}`,
      "--client-cert-auth",
      `--peer-cert-file=${pki.peer.cert}`,
      `--peer-key-file=${pki.peer.key}`,
      `--peer-trusted-ca-file=${pki.peerAuthority}`,
      "--peer-client-cert-auth",
      "--unsafe-no-fsync",
      "--log-level=warn",
    ];
    this.#server = new Server({
      name: `${etcd}-${ordinal} of the ${side}`,
      command: "unshare",
      arguments: [...IN_SEED, hosts, await findProgram("etcd"), ...flags],
      logFile: join(dir, `${side}-${etcd}-${ordinal}.log`),
      probe: async () => undefined,
    });
    await this.#server.spawn();
    if (this.#isStopped) await this.#server.stop();
  }

  /**
   * Does once what etcd-backup-restore does to the membership all the time: keeps the member's peer URL as advertised,
   * promotes it as soon as etcd agrees, and adds it again, without its data, when somebody has removed it.
   */
  async tend({ member: leader }: Located): Promise<void> {
    if (this.#server === undefined || this.#isStopped) return;
    const { members } = await leader.memberList(true);
    const own = members.find(
      ({ name, peerUrls }) => name === this.#name || peerUrls.includes(this.#advertised),
    );
    if (!this.#server.isRunning) await this.#comeBack(leader, own !== undefined);
    else if (own?.learner) await leader.memberPromote(own.id);
    else if (own && !own.peerUrls.includes(this.#advertised))
      await leader.memberUpdate(own.id, [this.#advertised]);
  }

  async #comeBack(leader: Located["member"], isMember: boolean): Promise<void> {
    const { dir, claim } = this.#options;
    if (!isMember) {
      await rm(join(dir, claim), { recursive: true, force: true });
      await leader.memberAdd([this.#advertised], true);
    }
    const { members } = await leader.memberList(true);
    const urls = members.flatMap(({ name, peerUrls }) =>
      peerUrls.map((url) => `${name || this.#name}=${url}`),
    );
    if (!this.#isStopped) await this.#launch(urls, true);
  }
}
