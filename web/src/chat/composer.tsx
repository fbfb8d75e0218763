// Where one writes. Enter says it, with Shift it begins a line.

import { useId, useState } from 'preact/hooks';

export interface ComposerProps {
  readonly answering: boolean;
  readonly onSay: (text: string) => void;
  readonly onStop: () => void;
}

export function Composer({ answering, onSay, onStop }: ComposerProps) {
  const [text, setText] = useState('');
  const id = useId();
  const say = () => {
    if (answering || text.trim() === '') return;
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
        <button type="submit" class="primary" disabled={text.trim() === ''}>
          Send
        </button>
      )}
    </form>
  );
}
