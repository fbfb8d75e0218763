// The input for messages. Enter sends, Shift and Enter begin a line.

import { useId, useState } from 'preact/hooks';

interface ComposerProps {
  /** False until there is a model to ask. */
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
          // An input method uses Enter to choose a character.
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
