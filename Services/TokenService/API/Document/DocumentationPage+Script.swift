extension DocumentationPage {
    /// The page's only script; the Content-Security-Policy names its digest. It hides what does not hold every word that was typed.
    static let script: HTML = """
        const search = document.getElementById('search'), found = document.getElementById('found');
        const articles = [...document.querySelectorAll('main article')].map(part => [part, part.textContent.toLowerCase()]);
        search.hidden = false;
        search.addEventListener('input', () => {
          const words = search.value.toLowerCase().split(' ').filter(word => word);
          let count = 0;
          for (const [part, text] of articles) {
            part.hidden = !words.every(word => text.includes(word));
            if (!part.hidden) count++;
            const link = document.querySelector("nav a[href='#" + CSS.escape(part.id) + "']");
            if (link) link.hidden = part.hidden;
          }
          found.textContent = words.length ? count + ' found' : '';
        });
        addEventListener('keydown', event => {
          if (event.key === '/' && event.target.tagName !== 'INPUT') { event.preventDefault(); search.focus(); }
        });
        """
}
