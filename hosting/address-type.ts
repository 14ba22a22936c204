import { isIPv4, isIPv6 } from "node:net";
import type { AddressType } from "../dns/names.ts";

/** Type of the DNS record that holds these addresses of a control plane; all of them are of one kind. */
export function addressTypeOf([value = ""]: readonly string[]): AddressType {
  if (isIPv4(value)) return "A";
  return isIPv6(value) ? "AAAA" : "CNAME";
}
