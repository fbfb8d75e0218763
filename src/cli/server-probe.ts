// Whether a server answers, and which model it would answer with, before anything is typed.

import { callServer, type ServerFlags } from './server-client.ts';

const ANSWER_MS = 2000;

export type ServerProbe =
  /** `model`: by the name that the server has for it; undefined where it has no such model. */
  | { readonly state: 'there'; readonly model: string | undefined }
  | { readonly state: 'refuses'; readonly status: number }
  | { readonly state: 'absent' };

/** Without a name, the model is the server's default one. */
export async function probeServer(server: ServerFlags, name: string | undefined): Promise<ServerProbe> {
  const path =
    name === undefined ? '/v1/models' : `/v1/models/${name.split('/').map(encodeURIComponent).join('/')}`;
  try {
    const response = await callServer(server, path, { signal: AbortSignal.timeout(ANSWER_MS) });
    if (response.status === 404) return { state: 'there', model: undefined };
    if (!response.ok) return { state: 'refuses', status: response.status };
    const body = (await response.json()) as Described & { readonly data?: readonly Described[] };
    const { id, aliases = [] } = (name === undefined ? body.data?.[0] : body) ?? {};
    // Whoever serves every name does not have this model for it.
    const isAnother = name !== undefined && id !== name && aliases.includes('*') && !aliases.includes(name);
    return { state: 'there', model: isAnother ? undefined : id };
  } catch {
    return { state: 'absent' };
  }
}

interface Described {
  readonly id?: string;
  readonly aliases?: readonly string[];
}
