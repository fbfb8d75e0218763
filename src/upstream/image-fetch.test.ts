import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { fetchImage, type ImageFetchOptions } from './image-fetch.ts';
import { hostFor, lookupOf, mayBeCalled, parseImageHost } from './image-hosts.ts';

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

async function serve(answer: (request: IncomingMessage, response: ServerResponse) => void): Promise<string> {
  const server = createServer(answer);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const unstopped = new AbortController().signal;

const fetched = (url: string, hosts: readonly string[], more: Partial<ImageFetchOptions> = {}) =>
  fetchImage(url, { hosts: hosts.map(parseImageHost), maxBytes: 1000, signal: unstopped, ...more });

describe('fetchImage', () => {
  it('gives the bytes of a host on the list, without cookies and keys', async () => {
    const headers: unknown[] = [];
    const url = await serve((request, response) => {
      headers.push(request.headers);
      response.end('bytes');
    });
    expect(Buffer.from(await fetched(`${url}/a.png`, [url])).toString()).toBe('bytes');
    expect(Object.keys(headers[0] as object).sort()).toEqual([
      ...['accept', 'accept-encoding', 'connection', 'host', 'user-agent'],
    ]);
  });

  it('fetches from no host that is not on the list', async () => {
    await expect(fetched('https://images.example/a.png', [])).rejects.toThrow(
      'this server fetches no images',
    );
    const refusal = /fetches no images from/;
    for (const url of [
      'https://other.example/a.png',
      'https://images.example.evil.example/a.png',
      'https://images.example:8443/a.png',
      'http://images.example/a.png',
      'https://127.0.0.1/a.png',
      'https://[::1]/a.png',
      'https://0x7f.1/a.png',
    ]) {
      await expect(fetched(url, ['images.example']), url).rejects.toThrow(refusal);
    }
    for (const url of ['file:///etc/passwd', 'ftp://images.example/a', 'gopher://x', 'a.png']) {
      await expect(fetched(url, ['images.example']), url).rejects.toThrow('must be a data: URL');
    }
    await expect(fetched('https://u:p@images.example/', ['images.example'])).rejects.toThrow('no user name');
  });

  it('follows redirects to hosts on the list alone, and not for ever', async () => {
    let target = '';
    const url = await serve((_, response) => response.writeHead(302, { location: target }).end());
    for (target of ['http://169.254.169.254/latest/meta-data', 'http://127.0.0.1:1/', 'file:///etc/passwd']) {
      await expect(fetched(url, [url]), target).rejects.toThrow(/fetches no images from|must be a data: URL/);
    }
    target = `${url}/again`;
    await expect(fetched(url, [url])).rejects.toThrow('redirects more than 3 times');
  });

  it('calls no private address to which a name on the list leads', async () => {
    const url = await serve((_, response) => response.end('secret'));
    const { port } = new URL(url);
    const host = parseImageHost(`images.example:${port}`);
    const resolving = ((_name: string, _options: object, callback: (...found: unknown[]) => void) =>
      callback(null, [{ address: '127.0.0.1', family: 4 }])) as never;
    const lookup = () => lookupOf(host, resolving);
    await expect(
      fetched(`https://images.example:${port}/`, [`images.example:${port}`], { lookup }),
    ).rejects.toThrow('images.example leads to a private address');
  });

  it('reads no more bytes, and for no longer, than it may', async () => {
    const endless = await serve((_, response) => {
      const write = () => response.write(Buffer.alloc(500), (error) => error ?? write());
      write();
    });
    await expect(fetched(endless, [endless])).rejects.toThrow('has more than 1000 bytes');
    const announced = await serve((_, response) =>
      response.writeHead(200, { 'content-length': 5000 }).write('a'),
    );
    await expect(fetched(announced, [announced])).rejects.toThrow('has more than 1000 bytes');
    const slow = await serve(async (_, response) => {
      for (let count = 0; count < 100 && !response.destroyed; count++) {
        response.write('a');
        await sleep(20);
      }
    });
    await expect(fetched(slow, [slow], { timeoutMs: 200 })).rejects.toThrow('took more than 0.2 s');
  });

  it('ends with its client', async () => {
    const url = await serve(() => {});
    const client = new AbortController();
    const fetching = fetched(url, [url], { signal: client.signal });
    setTimeout(() => client.abort(new Error('the client has left')), 50);
    await expect(fetching).rejects.toThrow('the client has left');
  });
});

describe('hosts of images', () => {
  it('are names below one, ports of their own, and addresses that are written as such', () => {
    const hosts = ['*.cdn.example', 'images.example:8443', 'http://10.0.0.5:8080'].map(parseImageHost);
    const isListed = (url: string) => hostFor(new URL(url), hosts) !== undefined;
    expect(isListed('https://a.b.cdn.example/x')).toBe(true);
    expect(isListed('https://cdn.example/x')).toBe(false);
    expect(isListed('https://evilcdn.example/x')).toBe(false);
    expect(isListed('https://IMAGES.example:8443/x')).toBe(true);
    expect(isListed('https://images.example./x')).toBe(false);
    expect(isListed('http://10.0.0.5:8080/x')).toBe(true);
  });

  it.each([
    '',
    '*',
    'http://images.example',
    'https://a.example/path',
    'a b',
    '169.254.169.254',
    'u:p@a.example',
  ])('are not %s', (text) => {
    expect(() => parseImageHost(text)).toThrow();
  });

  it.each([
    ...['10.1.2.3', '127.0.0.1', '172.16.0.1', '192.168.1.1', '169.254.169.254', '100.64.0.1', '0.0.0.0'],
    ...['::1', '::ffff:10.0.0.1', '::ffff:7f00:1', 'fd00::1', 'fe80::1', '64:ff9b::a00:1', '2002:a00:1::'],
    ...['2001::1', 'ff02::1', '::', '198.18.0.1', '224.0.0.1', '255.255.255.255'],
  ])('of a name are not at %s', (address) => {
    expect(mayBeCalled(parseImageHost('images.example'), address)).toBe(false);
  });

  it.each(['93.184.216.34', '1.1.1.1', '2606:4700:4700::1111'])('of a name may be at %s', (address) => {
    expect(mayBeCalled(parseImageHost('images.example'), address)).toBe(true);
  });
});
