import { useId, useState } from 'preact/hooks';
import { Mark } from '../shell/marks.tsx';
import { SafeText } from '../text/safe-text.tsx';

interface KeyFormProps {
  /** Why the last one was refused. */
  readonly problem: string | undefined;
  readonly onKey: (key: string, remember: boolean) => void;
  /** Absent where a key is needed. */
  readonly onCancel?: (() => void) | undefined;
}

export function KeyForm({ problem, onKey, onCancel }: KeyFormProps) {
  const [key, setKey] = useState('');
  const [remember, setRemember] = useState(false);
  const id = useId();
  const submit = (event: Event) => {
    event.preventDefault();
    if (key.trim() !== '') onKey(key.trim(), remember);
  };
  return (
    <main class="gate">
      <form class="gate-card" onSubmit={submit}>
        <Mark />
        <h1>Sign in</h1>
        <p class="quiet">
          The key is sent as a header, and forgotten when the tab is closed, unless it is remembered.
        </p>
        <label for={id}>API key</label>
        <input
          id={id}
          type="password"
          autocomplete="off"
          spellcheck={false}
          value={key}
          aria-invalid={problem !== undefined}
          aria-describedby={`${id}-problem`}
          onInput={(event) => setKey(event.currentTarget.value)}
        />
        <label class="check">
          <input
            type="checkbox"
            checked={remember}
            onChange={(event) => setRemember(event.currentTarget.checked)}
          />
          Remember on this device
        </label>
        <p id={`${id}-problem`} class="problem" role="alert">
          {problem !== undefined && <SafeText text={problem} />}
        </p>
        <div class="row">
          <button type="submit" class="primary">
            Sign in
          </button>
          {onCancel && (
            <button type="button" onClick={onCancel}>
              Go on without a key
            </button>
          )}
        </div>
      </form>
    </main>
  );
}
