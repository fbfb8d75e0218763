// Creates a key. Its secret is shown once, here: the server stores only a hash.

import { useId, useState } from 'preact/hooks';
import type { Tier } from '../../../src/store/key-record.ts';
import { type Server, wordsFor } from '../access/server.ts';
import { Problem } from '../shell/problem.tsx';
import { CopyButton } from '../text/code-block.tsx';
import { SafeText } from '../text/safe-text.tsx';
import type { WireKey } from './wire-key.ts';

const tiers: readonly Tier[] = ['high', 'normal', 'low'];

const limits = [
  ['requests_per_minute', 'Requests per minute', { min: 1, step: 1 }],
  ['tokens_per_minute', 'Tokens per minute', { min: 1, step: 1 }],
  ['max_concurrent', 'At once', { min: 1, step: 1 }],
  ['daily_tokens', 'Tokens per day', { min: 1, step: 1 }],
  ['kv_share', 'Part of the KV blocks', { min: 0.01, max: 1, step: 0.01 }],
] as const;

type MadeKey = WireKey & { readonly key: string };

interface NewKeyFormProps {
  readonly server: Server;
  readonly onMade: () => void;
  /** From the first key on every request needs one: it is an administrator's, and the page goes on with it. */
  readonly onFirstKey: ((key: string) => void) | undefined;
}

export function NewKeyForm({ server, onMade, onFirstKey }: NewKeyFormProps) {
  const first = onFirstKey !== undefined;
  const [made, setMade] = useState<MadeKey>();
  const [problem, setProblem] = useState<string>();
  const id = useId();
  const submit = async (event: SubmitEvent & { currentTarget: HTMLFormElement }) => {
    event.preventDefault();
    const form = event.currentTarget;
    const given = new FormData(form);
    const numbers = limits
      .map(([name]) => [name, String(given.get(name) ?? '')] as const)
      .filter(([, value]) => value !== '')
      .map(([name, value]) => [name, Number(value)] as const);
    const body = {
      name: String(given.get('name') ?? ''),
      tier: String(given.get('tier')),
      admin: first || given.get('admin') === 'on',
      ...Object.fromEntries(numbers),
    };
    setProblem(undefined);
    try {
      const key = first
        ? await server.makeFirstKey<MadeKey>('admin/keys', body)
        : await server.json<MadeKey>('admin/keys', { body });
      setMade(key);
      form.reset();
      if (first) onFirstKey(key.key);
      onMade();
    } catch (error) {
      setProblem(wordsFor(error));
    }
  };
  return (
    <section class="panel" aria-labelledby={`${id}-title`}>
      <h2 id={`${id}-title`}>New key</h2>
      <form class="fields" onSubmit={submit}>
        <label>
          <span>Name</span>
          <input name="name" required autocomplete="off" />
        </label>
        <label>
          <span>Tier</span>
          <select name="tier" value="normal">
            {tiers.map((tier) => (
              <option key={tier}>{tier}</option>
            ))}
          </select>
        </label>
        {limits.map(([name, label, range]) => (
          <label key={name}>
            <span>{label}</span>
            <input name={name} type="number" {...range} placeholder="no limit" />
          </label>
        ))}
        {first ? (
          <p class="quiet">The first key is an administrator's. From then on everybody needs one.</p>
        ) : (
          <label class="check">
            <input type="checkbox" name="admin" /> Admin
          </label>
        )}
        <button type="submit" class="primary">
          Make key
        </button>
      </form>
      <Problem text={problem} />
      <div role="status">
        {made && (
          <div class="secret">
            <p>
              The key of <SafeText text={made.name} most={60} />. It is shown this once:
            </p>
            <div class="row">
              <code>{made.key}</code>
              <CopyButton text={() => made.key} label="Copy key" />
              <button type="button" class="small" onClick={() => setMade(undefined)}>
                I have it
              </button>
            </div>
          </div>
        )}
      </div>
    </section>
  );
}
