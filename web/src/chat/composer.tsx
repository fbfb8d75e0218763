// Where one writes. Enter says it, with Shift it begins a line.

import { useId, useState } from 'preact/hooks';

export interface ComposerProps {
  /** Whether there is a model to ask. Until then what is written stays. */
  readonly askable: boolean;
  readonly answering: boolean;
  readonly onSay: (text: string) => void;
  readonly onStop: () => void;
}

export function Composer({ askable, answering, onSay, onStop }: ComposerProps) {
  const [text, setText] = useState('');
  const id = useId();
  const sayable = askable && text.trim() !== '';
  const say = () => {
    if (answering || !sayable) return;
    onSay(text);
    setText('');
  };
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        say();
      }}
    >
      <label for={id} class="offscreen">
        Message
      </label>
      <textarea
        id={id}
        rows={2}
        placeholder="Write a message"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          // While characters are being put together, Enter chooses one.
          if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          say();
        }}
      />
      {answering ? (
        <button type="button" class="primary" onClick={onStop}>
          Stop
        </button>
      ) : (
        <button type="submit" class="primary" disabled={!sayable}>
          Send
        </button>
      )}
    </form>
  );
}
