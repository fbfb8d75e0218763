// A model repository on the Hugging Face hub or a mirror: its files with size and checksum, their addresses, and
// what its refusals mean. Transfers nothing.

import type { ListFileEntry } from '@huggingface/hub';
import type { ModelReference } from './model-reference.ts';
import { PullError } from './model-reference.ts';

export interface Hub {
  /** Without a slash at the end. */
  readonly url: string;
  readonly token?: string;
}

export interface Checksum {
  /** `git`: SHA-1 over the length and the content, as Git names small files. */
  readonly kind: 'sha256' | 'git';
  readonly hex: string;
}

export interface HubFile {
  /** Inside the repository, with slashes. */
  readonly path: string;
  readonly sizeBytes: number;
  readonly checksum?: Checksum;
}

type Repository = Pick<ModelReference, 'owner' | 'repo'>;

export async function listHubFiles(
  hub: Hub,
  repository: Repository,
  signal: AbortSignal,
): Promise<HubFile[]> {
  // Most servers never ask a hub.
  const { HubApiError, listFiles } = await import('@huggingface/hub');
  const files: HubFile[] = [];
  try {
    const entries = listFiles({
      repo: `${repository.owner}/${repository.repo}`,
      recursive: true,
      hubUrl: hub.url,
      fetch: (address) => fetchFromHub(hub, String(address), { signal }),
    });
    for await (const entry of entries) if (entry.type === 'file') files.push(hubFile(entry));
  } catch (error) {
    if (error instanceof HubApiError) throw refusal(error.statusCode, hub, repository);
    throw error;
  }
  return files;
}

/** The token goes to the hub alone: neither to where it redirects nor to where its lists point. */
export async function fetchFromHub(
  hub: Hub,
  address: string,
  {
    signal,
    headers = {},
  }: { readonly signal: AbortSignal; readonly headers?: Readonly<Record<string, string>> },
): Promise<Response> {
  const isHub = new URL(address).origin === new URL(hub.url).origin;
  const token = isHub && hub.token !== undefined ? { authorization: `Bearer ${hub.token}` } : {};
  try {
    return await fetch(address, { signal, headers: { ...headers, ...token } });
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    throw unreachable(hub, error);
  }
}

export function fileUrl({ url }: Hub, { owner, repo }: Repository, path: string): string {
  return `${url}/${owner}/${repo}/resolve/main/${path.split('/').map(encodeURIComponent).join('/')}`;
}

function hubFile({ path, size, lfs, oid }: ListFileEntry): HubFile {
  const checksum = lfs === undefined ? checksumOf('git', oid) : checksumOf('sha256', lfs.oid);
  return { path, sizeBytes: lfs?.size ?? size, ...(checksum && { checksum }) };
}

/** A mirror may give names of its own in place of checksums. */
function checksumOf(kind: Checksum['kind'], hex: string | undefined): Checksum | undefined {
  const digits = kind === 'git' ? 40 : 64;
  return hex?.length === digits && /^[0-9a-f]+$/i.test(hex) ? { kind, hex } : undefined;
}

/** What a status of the hub means to the user. */
export function refusal(status: number, hub: Hub, repository: Repository): PullError {
  const name = `${repository.owner}/${repository.repo}`;
  const page = `${hub.url}/${name}`;
  if (status === 404) return new PullError(`there is no model ${name} at ${hub.url}; check its name`);
  if (status === 401 && hub.token === undefined) {
    return new PullError(
      `${name} does not exist, or needs an access token (401). Check its name; where it is gated, accept its ` +
        `terms at ${page}; then give a token of yours as HF_TOKEN or with --token`,
    );
  }
  if (status === 403) {
    return new PullError(
      `${name} is gated, and your account or token has no access to it (403). Ask for it at ${page}, ` +
        'and let the token read gated repositories',
    );
  }
  return refusalOf(status, hub, name);
}

/** The same where no repository is to blame; `asked` is what it was asked for. */
export function refusalOf(status: number, { url, token }: Hub, asked: string): PullError {
  if (status === 401 && token !== undefined) {
    return new PullError(
      `${url} does not accept the access token (401); make a new one and give it as HF_TOKEN`,
    );
  }
  if (status === 429) return new PullError(`${url} asks for fewer requests (429); try again in a while`);
  return new PullError(`${url} answered with status ${status} for ${asked}; try again in a while`);
}

function unreachable({ url }: Hub, error: unknown): PullError {
  const { cause, message } = error as { cause?: { message?: string; code?: string }; message?: string };
  const detail = cause?.message || cause?.code || message;
  return new PullError(
    `${url} cannot be reached (${detail}); check the network, or set HF_ENDPOINT to a mirror`,
  );
}
