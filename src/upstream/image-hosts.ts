// Which hosts images may be fetched from, and at which addresses these may be. What a name resolves to is checked at every
// connection and every redirect, and the connection goes to the address that was checked: a name on the list whose DNS entry is
// changed leads nowhere, least of all into this machine's own network.

import { lookup as resolve } from 'node:dns';
import { BlockList, isIP, type LookupFunction } from 'node:net';
import { checkAddress, hostOf } from './address.ts';

export interface ImageHost {
  readonly protocol: 'http:' | 'https:';
  /** In lower case; `*.` before it stands for every name below. */
  readonly host: string;
  /** Empty: the protocol's own. */
  readonly port: string;
}

/** Reads `images.example`, `*.example:8443` or `http://10.0.0.5:8080`. Throws where it is none of these. */
export function parseImageHost(text: string): ImageHost {
  const [, scheme = 'https', wild = '', rest = ''] =
    /^(?:(https?):\/\/)?(\*\.)?(.+)$/i.exec(text.trim()) ?? [];
  const address = `${scheme.toLowerCase()}://${rest}`;
  const url = URL.canParse(address) ? new URL(address) : undefined;
  const isBare =
    url !== undefined && ['', '/'].includes(url.pathname) && url.search === '' && url.hash === '';
  if (url === undefined || !isBare || url.username !== '' || rest.includes('*')) {
    throw new Error(
      `'${text}' is no host; give one such as images.example, *.example or http://10.0.0.5:8080`,
    );
  }
  const host = hostOf(url).toLowerCase();
  if (scheme === 'http' && !isOwnName(host)) {
    throw new Error(`'${text}': HTTP without TLS is for addresses and names of your own network alone`);
  }
  const checked = checkAddress(address, { allowHttp: true });
  if (!checked.ok) throw new Error(checked.problem);
  return { protocol: url.protocol as ImageHost['protocol'], host: wild + host, port: url.port };
}

/** An address that is named as such may be private: whoever wrote it down meant it. */
function isOwnName(host: string): boolean {
  return isIP(host) !== 0 || host === 'localhost';
}

/** Undefined where no host on the list is the URL's. */
export function hostFor(url: URL, hosts: readonly ImageHost[]): ImageHost | undefined {
  const name = hostOf(url).toLowerCase();
  return hosts.find(({ protocol, host, port }) => {
    if (protocol !== url.protocol || port !== url.port) return false;
    return host.startsWith('*.') ? name.endsWith(host.slice(1)) : name === host;
  });
}

/** What is not the public Internet's. */
const inner = new BlockList();
for (const [network, bits] of [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 3],
] as const) {
  inner.addSubnet(network, bits);
}
inner.addAddress('168.63.129.16');
/** Apart: a list of both takes an IPv4 address for the same within IPv6. */
const inner6 = new BlockList();
// All but global unicast; and what carries IPv4 addresses within it: Teredo, 6to4, translators.
for (const [network, bits] of [
  ['::', 3],
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['4000::', 2],
  ['8000::', 1],
] as const) {
  inner6.addSubnet(network, bits, 'ipv6');
}

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8);
loopback.addAddress('::1', 'ipv6');

const isIn = (list: BlockList, address: string) => list.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4');

/** Whether an address that a host of the list resolves to may be called. */
export function mayBeCalled({ host }: ImageHost, address: string): boolean {
  if (isIP(host) !== 0) return true;
  if (host === 'localhost') return isIn(loopback, address);
  return !isIn(isIP(address) === 6 ? inner6 : inner, address);
}

type Resolve = typeof resolve;

/** For one connection. Refuses a name of which any address may not be called. */
export function lookupOf(host: ImageHost, resolving: Resolve = resolve): LookupFunction {
  return (hostname, options, callback) => {
    resolving(hostname, { ...options, all: true }, (error, found) => {
      const wrong = found?.find(({ address }) => !mayBeCalled(host, address));
      const refusal = error ?? (wrong && new Error(`${hostname} leads to a private address`));
      const [first] = found ?? [];
      if (refusal || first === undefined) callback(refusal ?? new Error(`${hostname} has no address`), '', 4);
      else if (options.all === true) callback(null, found);
      else callback(null, first.address, first.family);
    });
  };
}
