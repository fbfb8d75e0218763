// Fetches an image from a host of the list: no more bytes and no more time than are allowed, no cookies, no keys, redirects only
// to hosts of the list.

import { request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { LookupFunction } from 'node:net';
import { messageOf } from '../runtime/error-message.ts';
import { hostFor, type ImageHost, lookupOf } from './image-hosts.ts';

/** A URL that is not fetched, or whose host gives no image; the message says why. */
export class ImageFetchError extends Error {
  override readonly name = 'ImageFetchError';
}

export interface ImageFetchOptions {
  readonly hosts: readonly ImageHost[];
  readonly maxBytes: number;
  readonly signal: AbortSignal;
  /** Of all of it, redirects too. Default 15 s. */
  readonly timeoutMs?: number;
  /** In place of the machine's resolver. */
  readonly lookup?: (host: ImageHost) => LookupFunction;
}

const TIMEOUT_MS = 15_000;
const MOST_REDIRECTS = 3;
const MOST_URL_CHARACTERS = 8192;

export async function fetchImage(
  given: string,
  { hosts, maxBytes, signal, timeoutMs = TIMEOUT_MS, lookup = lookupOf }: ImageFetchOptions,
): Promise<Uint8Array> {
  const timeout = AbortSignal.timeout(timeoutMs);
  const stop = AbortSignal.any([signal, timeout]);
  try {
    let url = checkedUrl(given, undefined);
    for (let redirects = 0; redirects <= MOST_REDIRECTS; redirects++) {
      const host = hostFor(url, hosts);
      if (host === undefined) throw notListed(url, hosts);
      const response = await get(url, lookup(host), stop);
      const { statusCode: status = 0 } = response;
      const { location } = response.headers;
      if (status >= 300 && status < 400 && location !== undefined) {
        response.destroy();
        url = checkedUrl(location, url);
        continue;
      }
      if (status !== 200) {
        response.destroy();
        throw new ImageFetchError(`${url.host} answered ${status}`);
      }
      return await bytesOf(response, url, maxBytes);
    }
    throw new ImageFetchError(`${url.host} redirects more than ${MOST_REDIRECTS} times`);
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof ImageFetchError) throw error;
    const problem = timeout.aborted ? `took more than ${timeoutMs / 1000} s` : `failed: ${messageOf(error)}`;
    throw new ImageFetchError(`fetching the image ${problem}`);
  }
}

function checkedUrl(text: string, base: URL | undefined): URL {
  const url =
    text.length <= MOST_URL_CHARACTERS && URL.canParse(text, base?.href) ? new URL(text, base) : undefined;
  if (url === undefined || !['http:', 'https:'].includes(url.protocol)) {
    throw new ImageFetchError(
      'the image must be a data: URL, or one of http(s) where this server fetches images',
    );
  }
  if (url.username !== '' || url.password !== '') {
    throw new ImageFetchError('the URL of an image must have no user name');
  }
  return url;
}

function notListed({ host }: URL, hosts: readonly ImageHost[]): ImageFetchError {
  return new ImageFetchError(
    hosts.length === 0
      ? 'this server fetches no images; send the image itself, as a data: URL'
      : `this server fetches no images from ${host}; send the image itself, as a data: URL`,
  );
}

function get(url: URL, lookup: LookupFunction, signal: AbortSignal): Promise<IncomingMessage> {
  const send = url.protocol === 'https:' ? httpsRequest : httpRequest;
  return new Promise((resolve, reject) => {
    const request = send(url, {
      lookup,
      signal,
      // A connection of its own, which nobody else's check has opened.
      agent: false,
      headers: { accept: 'image/*', 'accept-encoding': 'identity', 'user-agent': 'chairlift' },
    });
    request.once('response', resolve);
    request.on('error', reject);
    request.end();
  });
}

async function bytesOf(response: IncomingMessage, { host }: URL, maxBytes: number): Promise<Uint8Array> {
  const tooLarge = () => new ImageFetchError(`the image at ${host} has more than ${maxBytes} bytes`);
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    if (Number(response.headers['content-length'] ?? 0) > maxBytes) throw tooLarge();
    for await (const chunk of response) {
      bytes += (chunk as Buffer).length;
      if (bytes > maxBytes) throw tooLarge();
      chunks.push(chunk as Buffer);
    }
  } finally {
    response.destroy();
  }
  return Buffer.concat(chunks);
}
