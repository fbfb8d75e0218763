// Downloads a model from the hub.

import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { formatBytes } from '../../../src/text/byte-size.ts';
import { useValue } from '../observable.ts';
import { percent } from '../text/format.ts';
import { SafeText } from '../text/safe-text.tsx';
import type { Pull, Pulls } from './pulls.ts';

export function PullForm({ pulls, onDone }: { readonly pulls: Pulls; readonly onDone: () => void }) {
  const [name, setName] = useState('');
  const id = useId();
  const running = useValue(pulls);
  const done = running.filter(({ state }) => state === 'done').length;
  const reported = useRef(done);
  useEffect(() => {
    if (done !== reported.current) onDone();
    reported.current = done;
  });
  return (
    <section class="panel" aria-labelledby={`${id}-title`}>
      <h2 id={`${id}-title`}>Pull</h2>
      <form
        class="row grow"
        onSubmit={(event) => {
          event.preventDefault();
          if (name.trim() !== '') void pulls.start(name.trim());
        }}
      >
        <label for={id} class="offscreen">
          Model on the hub
        </label>
        <input
          id={id}
          value={name}
          placeholder="llama3.2:1b or hf.co/owner/repo:Q4_K_M"
          spellcheck={false}
          autocapitalize="off"
          onInput={(event) => setName(event.currentTarget.value)}
        />
        <button type="submit" class="primary">
          Pull
        </button>
      </form>
      <ul class="pulls">
        {running.map((pull) => (
          <PullRow key={pull.model} pull={pull} pulls={pulls} />
        ))}
      </ul>
    </section>
  );
}

function PullRow({ pull, pulls }: { readonly pull: Pull; readonly pulls: Pulls }) {
  const { model, state, status, totalBytes, doneBytes = 0 } = pull;
  const share = totalBytes ? doneBytes / totalBytes : undefined;
  return (
    <li class="pull" data-state={state}>
      <span>
        <SafeText text={model} most={120} />
      </span>
      {state === 'running' && (
        <progress
          aria-label={`Pulling ${model}`}
          max={1}
          {...(share === undefined ? {} : { value: share })}
        />
      )}
      <span class="quiet" role={state === 'running' ? undefined : 'status'}>
        <SafeText text={status} most={300} />
        {totalBytes !== undefined &&
          ` · ${formatBytes(doneBytes)} of ${formatBytes(totalBytes)} (${percent(share ?? 0)})`}
      </span>
      {state === 'running' ? (
        <button type="button" class="small" onClick={() => pulls.cancel(model)}>
          Cancel
        </button>
      ) : (
        <button type="button" class="small ghost" onClick={() => pulls.dismiss(model)}>
          Dismiss
        </button>
      )}
    </li>
  );
}
