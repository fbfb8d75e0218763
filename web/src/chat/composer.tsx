// The input for messages. Enter sends, Shift and Enter begin a line, Up edits the last message. Files of text and images go with
// it: by the button, dropped, or pasted; photographs by a button of their own on a phone.

import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { formatBytes } from '../../../src/text/byte-size.ts';
import { SafeText } from '../text/safe-text.tsx';
import type { Attached, AttachedFile, AttachedImage } from './conversation.ts';
import { isImage, readImage } from './pictures.ts';

interface ComposerProps {
  /** False until there is a model to ask. */
  readonly askable: boolean;
  readonly answering: boolean;
  /** Why images cannot be attached; undefined where they can. */
  readonly blindness: string | undefined;
  readonly onSay: (text: string, attached: Attached) => void;
  readonly onStop: () => void;
  readonly onEditLast: () => void;
}

/** More would fill most contexts. */
const MOST_FILE_BYTES = 1 << 20;

export function Composer({ askable, answering, blindness, onSay, onStop, onEditLast }: ComposerProps) {
  const [text, setText] = useState('');
  const [files, setFiles] = useState<readonly AttachedFile[]>([]);
  const [images, setImages] = useState<readonly AttachedImage[]>([]);
  const [problem, setProblem] = useState<string>();
  const area = useRef<HTMLTextAreaElement>(null);
  const id = useId();
  const sees = blindness === undefined;
  const isWritten = text.trim() !== '' || files.length > 0 || images.length > 0;
  const sayable = askable && isWritten && (sees || images.length === 0);
  useEffect(() => {
    // On a phone the keyboard would cover the page.
    if (!matchMedia('(pointer: coarse)').matches) area.current?.focus({ preventScroll: true });
  }, []);
  const say = () => {
    if (answering || !sayable) return;
    onSay(text, { files, images });
    setText('');
    setFiles([]);
    setImages([]);
    setProblem(undefined);
  };
  const attach = async (given: Iterable<File>) => {
    const all = [...given];
    const read = await Promise.all(all.filter((file) => !isImage(file)).map(readText));
    const seen = sees ? await Promise.all(all.filter(isImage).map(readImage)) : [];
    const unseen = !sees && all.some(isImage) ? [blindness] : [];
    const problems = [...[...read, ...seen].filter((one) => typeof one === 'string'), ...unseen];
    setProblem(problems.length === 0 ? undefined : problems.join(' '));
    setFiles((before) => [...before, ...read.filter((one) => typeof one !== 'string')]);
    setImages((before) => [...before, ...seen.filter((one) => typeof one !== 'string')]);
  };
  const warning = problem ?? (images.length > 0 ? blindness : undefined);
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        say();
      }}
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        if (!event.dataTransfer?.files.length) return;
        event.preventDefault();
        void attach(event.dataTransfer.files);
      }}
    >
      {(files.length > 0 || images.length > 0 || warning !== undefined) && (
        <div class="attached">
          {images.map(({ id: imageId, name, thumbnail }) => (
            <span class="chip" key={imageId}>
              <img class="thumbnail" src={thumbnail} alt={name} />
              <button
                type="button"
                class="small ghost"
                aria-label={`Remove ${name}`}
                onClick={() => setImages(images.filter((other) => other.id !== imageId))}
              >
                ×
              </button>
            </span>
          ))}
          {files.map(({ name, text: content }, at) => (
            <span class="chip" key={at}>
              <SafeText text={name} most={40} /> {formatBytes(content.length)}
              <button
                type="button"
                class="small ghost"
                aria-label={`Remove ${name}`}
                onClick={() => setFiles(files.filter((_, other) => other !== at))}
              >
                ×
              </button>
            </span>
          ))}
          {warning !== undefined && (
            <p class="problem" role="alert">
              <SafeText text={warning} />
            </p>
          )}
        </div>
      )}
      {sees && (
        <label class="attach camera">
          <span aria-hidden="true">◉</span>
          <input
            type="file"
            accept="image/*"
            capture="environment"
            class="offscreen"
            aria-label="Take a photograph"
            onChange={(event) => {
              void attach(event.currentTarget.files ?? []);
              event.currentTarget.value = '';
            }}
          />
        </label>
      )}
      <label class="attach">
        <span aria-hidden="true">+</span>
        <input
          type="file"
          multiple
          class="offscreen"
          aria-label={sees ? 'Attach images and files of text' : 'Attach files of text'}
          onChange={(event) => {
            void attach(event.currentTarget.files ?? []);
            event.currentTarget.value = '';
          }}
        />
      </label>
      <label for={id} class="offscreen">
        Message
      </label>
      <textarea
        id={id}
        ref={area}
        rows={2}
        placeholder="Write a message"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onPaste={(event) => {
          if (!event.clipboardData?.files.length) return;
          event.preventDefault();
          void attach(event.clipboardData.files);
        }}
        onKeyDown={(event) => {
          if (event.key === 'ArrowUp' && text === '' && !answering) {
            event.preventDefault();
            onEditLast();
          }
          // An input method uses Enter to choose a character.
          if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          say();
        }}
      />
      {answering ? (
        <button type="button" class="primary" onClick={onStop} title="Escape">
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

/** A file's text, or why it has none. */
async function readText(file: File): Promise<AttachedFile | string> {
  if (file.size > MOST_FILE_BYTES)
    return `${file.name} has ${formatBytes(file.size)}, more than ${formatBytes(MOST_FILE_BYTES)}.`;
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer());
    if (!text.includes('\0')) return { name: file.name, text };
  } catch {
    // Said below.
  }
  return `${file.name} is no text: only files of text can be attached.`;
}
