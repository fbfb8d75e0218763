// Which addresses an upstream may have. Its URL is checked at the start, and what its name resolves to at every connection,
// so that neither a typing error nor a changed DNS entry makes the server call what only this machine can reach.

import { lookup as resolve } from 'node:dns';
import { BlockList, isIP, type LookupFunction } from 'node:net';

/** Link-local addresses, among them those by which clouds give credentials to their machines, and those of no single host. */
const forbidden = new BlockList();
forbidden.addSubnet('0.0.0.0', 8);
forbidden.addSubnet('169.254.0.0', 16);
forbidden.addSubnet('224.0.0.0', 3);
forbidden.addAddress('100.100.100.200');
forbidden.addAddress('168.63.129.16');
forbidden.addAddress('192.0.0.192');
forbidden.addAddress('::', 'ipv6');
forbidden.addSubnet('fe80::', 10, 'ipv6');
forbidden.addSubnet('ff00::', 8, 'ipv6');
forbidden.addAddress('fd00:ec2::254', 'ipv6');
// The same IPv4 addresses within IPv6, as translators and 6to4 write them.
forbidden.addSubnet('64:ff9b::a9fe:0', 112, 'ipv6');
forbidden.addSubnet('2002:a9fe::', 32, 'ipv6');

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8);
loopback.addAddress('::1', 'ipv6');

const isIn = (list: BlockList, address: string) => list.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4');

/** Names that clouds give to the same services. */
const metadataName = /(^|\.)metadata(\.google)?\.internal$|^instance-data(\.|$)/;

export interface AddressRules {
  /** Whether HTTP without TLS is allowed to other machines. */
  readonly allowHttp: boolean;
}

export type CheckedAddress =
  | { readonly ok: true; readonly url: URL }
  | { readonly ok: false; readonly problem: string };

export function checkAddress(text: string, { allowHttp }: AddressRules): CheckedAddress {
  const refused = (problem: string): CheckedAddress => ({ ok: false, problem });
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !['http:', 'https:'].includes(url.protocol)) {
    return refused('give an address such as https://api.example/v1');
  }
  if (url.username !== '' || url.password !== '') return refused('give the key as key, not in the address');
  if (url.search !== '' || url.hash !== '') return refused('give the address without ? and #');
  const host = hostOf(url);
  if ((isIP(host) !== 0 && isIn(forbidden, host)) || metadataName.test(host.toLowerCase())) {
    return refused(`${host} is a link-local or metadata address, which is never called`);
  }
  if (url.protocol === 'http:' && !allowHttp && !isLocal(host)) {
    return refused(`${host} is another machine: use https, or set allowHttp where the way there is safe`);
  }
  return { ok: true, url };
}

/** Without the brackets of IPv6, and without a dot at the end, which changes nothing but comparisons. */
export function hostOf({ hostname }: URL): string {
  return hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '');
}

function isLocal(host: string): boolean {
  return host === 'localhost' || host.endsWith('.localhost') || (isIP(host) !== 0 && isIn(loopback, host));
}

/** Resolves names for connections to the upstream; refuses a name that leads where no upstream may be. */
export function lookupFor(url: URL, { allowHttp }: AddressRules): LookupFunction {
  // HTTP was allowed because this is a name of this machine: then it must be.
  const staysHere = url.protocol === 'http:' && !allowHttp;
  return (hostname, options, callback) => {
    resolve(hostname, { ...options, all: true }, (error, found) => {
      const wrong = found?.find(
        ({ address }) => isIn(forbidden, address) || (staysHere && !isIn(loopback, address)),
      );
      const refusal =
        error ?? (wrong && new Error(`${hostname} leads to ${wrong.address}, where no upstream may be`));
      const [first] = found ?? [];
      if (refusal || first === undefined) callback(refusal ?? new Error(`${hostname} has no address`), '', 4);
      else if (options.all === true) callback(null, found);
      else callback(null, first.address, first.family);
    });
  };
}
