"""`maze report`: one page on an experiment, as HTML, Markdown or LaTeX."""
