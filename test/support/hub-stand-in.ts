// A small hub on this machine that answers as the Hugging Face hub does: lists in pages, addresses that redirect
// to another host, ranges, refusals. It can be told to fail in the ways networks do.

import { createHash } from 'node:crypto';
import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface StandInFile {
  readonly bytes: Uint8Array;
  /** Large files have a SHA-256 in the list, small ones Git's own. */
  readonly lfs?: boolean;
  /** Says another checksum than the content has. */
  readonly lies?: boolean;
  /** Says another size. */
  readonly saysBytes?: number;
}

/** What the hub says of a repository where it is found. */
interface StandInModel {
  readonly downloads?: number;
  readonly gated?: boolean | string;
  readonly gguf?: { readonly total: number; readonly architecture: string };
  readonly safetensors?: { readonly total: number };
  readonly config?: { readonly model_type: string };
}

interface Faults {
  /** Every search is answered with this status. */
  searchStatus?: number | undefined;
  /** A search is answered by something else. */
  searchBody?: string;
  /** How many bytes each next answer brings before its connection is cut. */
  cutAfter?: number[];
  /** Statuses of the next requests for content; 0 answers as usual. */
  statuses?: number[];
  noRanges?: boolean;
  /** Ranges start N bytes later than asked for. */
  shiftRanges?: number;
  /** Every list and file needs this token. */
  token?: string;
  gated?: 401 | 403;
  /** After how many bytes of each next answer nothing comes any more, on a connection that stays open. */
  hangAfter?: number[];
}

interface ContentRequest {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
}

export interface HubStandIn {
  readonly url: string;
  readonly faults: Faults;
  /** What the host behind the redirects was asked. */
  readonly contentRequests: ContentRequest[];
  /** What was searched for, as the query of the address. */
  readonly searches: URLSearchParams[];
  close(): Promise<void>;
}

type Files = Readonly<Record<string, StandInFile>>;

const PAGE = 3;

export async function startHub(
  repositories: Readonly<Record<string, Files>>,
  models: Readonly<Record<string, StandInModel>> = {},
): Promise<HubStandIn> {
  const faults: Faults = {};
  const searches: URLSearchParams[] = [];
  const contentRequests: ContentRequest[] = [];
  const contentHost = createServer((request, response) => {
    const path = decodeURIComponent(request.url ?? '').slice(1);
    contentRequests.push({ path, headers: request.headers });
    const [owner, repo, ...rest] = path.split('/');
    const file = repositories[`${owner}/${repo}`]?.[rest.join('/')];
    sendContent(response, file as StandInFile, request.headers.range, faults);
  });
  const contentUrl = await listen(contentHost);
  const hub = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://hub');
    const list = /^\/api\/models\/([^/]+\/[^/]+)\/tree\/main$/.exec(pathname);
    const content = /^\/([^/]+\/[^/]+)\/resolve\/main\/(.+)$/.exec(pathname);
    const files = repositories[decodeURIComponent(list?.[1] ?? content?.[1] ?? '')];
    const refused = faults.token !== undefined && request.headers.authorization !== `Bearer ${faults.token}`;
    if (refused) return refuse(response, 401);
    if (pathname === '/api/models') {
      searches.push(searchParams);
      return sendFound(response, searchParams, repositories, models, faults);
    }
    if (files === undefined) return refuse(response, 404);
    if (list) return sendList(response, files, Number(searchParams.get('cursor') ?? 0), url + pathname);
    if (faults.gated !== undefined) return refuse(response, faults.gated);
    if (files[decodeURIComponent(content?.[2] ?? '')] === undefined) return refuse(response, 404);
    response.writeHead(302, { location: `${contentUrl}/${content?.[1]}/${content?.[2]}` }).end();
  });
  const url = await listen(hub);
  const close = async () => {
    await Promise.all([hub, contentHost].map(stop));
  };
  return { url, faults, contentRequests, searches, close };
}

/** By words of its name, and by the tag of its format, as the hub does. */
function sendFound(
  response: ServerResponse,
  query: URLSearchParams,
  repositories: Readonly<Record<string, Files>>,
  models: Readonly<Record<string, StandInModel>>,
  { searchStatus, searchBody }: Faults,
): void {
  if (searchStatus !== undefined) {
    refuse(response, searchStatus);
    return;
  }
  const words = (query.get('search') ?? '').toLowerCase().split(/\s+/);
  const ending = `.${query.get('filter')}`;
  const found = Object.entries(repositories)
    .filter(([name]) => words.every((word) => name.toLowerCase().includes(word)))
    .filter(([, files]) => Object.keys(files).some((path) => path.endsWith(ending)))
    .map(([id]) => ({ _id: 'made', id, likes: 7, lastModified: '2026-05-01T12:00:00.000Z', ...models[id] }))
    .toSorted((one, other) => (other.downloads ?? 0) - (one.downloads ?? 0));
  response.writeHead(200, { 'content-type': 'application/json' });
  response.end(searchBody ?? JSON.stringify(found.slice(0, Number(query.get('limit')))));
}

function sendList(response: ServerResponse, files: Files, cursor: number, address: string): void {
  const entries = Object.entries(files).map(([path, file]) => entryOf(path, file));
  const next = cursor + PAGE;
  response.writeHead(200, {
    'content-type': 'application/json',
    ...(next < entries.length ? { link: `<${address}?cursor=${next}>; rel="next"` } : {}),
  });
  response.end(JSON.stringify(entries.slice(cursor, next)));
}

function entryOf(path: string, file: StandInFile): object {
  const { bytes, lfs = false, lies = false, saysBytes: size = bytes.length } = file;
  const content = lies ? Buffer.from('other') : bytes;
  const sha256 = createHash('sha256').update(content).digest('hex');
  const git = createHash('sha1').update(`blob ${bytes.length}\0`).update(content).digest('hex');
  return lfs
    ? {
        type: 'file',
        path,
        size,
        oid: 'pointer',
        lfs: { oid: sha256, size, pointerSize: 134 },
      }
    : { type: 'file', path, size, oid: git };
}

function sendContent(
  response: ServerResponse,
  { bytes }: StandInFile,
  range: string | undefined,
  faults: Faults,
): void {
  const status = faults.statuses?.shift();
  if (status) {
    refuse(response, status);
    return;
  }
  const asked = faults.noRanges ? undefined : /^bytes=(\d+)-$/.exec(range ?? '')?.[1];
  const start = Number(asked ?? 0) + (faults.shiftRanges ?? 0);
  if (start >= bytes.length && bytes.length > 0) {
    refuse(response, 416);
    return;
  }
  const rest = bytes.subarray(start);
  const ranged = { 'content-range': `bytes ${start}-${bytes.length - 1}/${bytes.length}` };
  response.writeHead(asked === undefined ? 200 : 206, {
    'content-length': rest.length,
    etag: '"made"',
    ...(asked === undefined ? {} : ranged),
  });
  const cut = faults.cutAfter?.shift();
  const hang = faults.hangAfter?.shift();
  if (cut !== undefined) response.write(rest.subarray(0, cut), () => response.destroy());
  else if (hang !== undefined) response.write(rest.subarray(0, hang));
  else response.end(rest);
}

function refuse(response: ServerResponse, status: number): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end('{"error":"refused"}');
}

function listen(server: Server): Promise<string> {
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () =>
      resolve(`http://127.0.0.1:${(server.address() as AddressInfo).port}`),
    );
  });
}

function stop(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
