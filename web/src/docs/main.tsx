import { render } from 'preact';
import { DocsPage } from './docs-page.tsx';
import '../style/tokens.css';
import '../style/base.css';
import '../style/shell.css';
import '../style/markdown.css';
import '../style/lists.css';
import './docs.css';

const page = document.getElementById('page');
if (page === null) throw new Error('docs.html has no #page');
page.replaceChildren();
render(<DocsPage />, page);
