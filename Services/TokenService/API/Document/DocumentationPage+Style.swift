extension DocumentationPage {
    /// The page's only style; the Content-Security-Policy names its digest.
    static let style: HTML = """
        :root{color-scheme:light dark;--ground:#fff;--panel:#f6f7f9;--text:#1d2330;--quiet:#5c6575;--line:#dde1e8;--link:#1c5fc4;
        --get:#1b7f4b;--post:#1c5fc4;--put:#8a5a00;--patch:#7a3fb0;--delete:#b3261e}
        @media (prefers-color-scheme:dark){:root{--ground:#14171c;--panel:#1c2027;--text:#e4e7ec;--quiet:#9aa4b2;--line:#313742;
        --link:#7db0ff;--get:#5fcf93;--post:#7db0ff;--put:#e0b15a;--patch:#c79bf2;--delete:#ff8a80}}
        *{box-sizing:border-box}
        html{scroll-behavior:smooth;scroll-padding-top:1rem}
        @media (prefers-reduced-motion:reduce){html{scroll-behavior:auto}}
        body{margin:0;background:var(--ground);color:var(--text);font:16px/1.55 system-ui,sans-serif;display:grid;
        grid-template-columns:19rem minmax(0,1fr)}
        nav{position:sticky;top:0;height:100vh;overflow:auto;padding:1rem;background:var(--panel);border-right:1px solid var(--line);
        font-size:.875rem}
        nav a{display:block;padding:.2rem .4rem;border-radius:.3rem;color:var(--text);text-decoration:none}
        nav a:hover,nav a:focus-visible{background:var(--line)}
        nav a[hidden],article[hidden]{display:none}
        nav input{width:100%;padding:.4rem;border:1px solid var(--line);border-radius:.3rem;background:var(--ground);color:var(--text);
        font:inherit}
        nav .brand{font-weight:700;font-size:1rem;margin-bottom:.5rem}
        nav summary{font-weight:600;padding:.45rem .4rem .15rem;cursor:pointer}
        main{padding:1.5rem 2.5rem 6rem;max-width:64rem}
        .skip{position:absolute;left:-99rem}
        .skip:focus{left:1rem;top:1rem;background:var(--ground);padding:.5rem;z-index:1}
        a{color:var(--link)}
        h1{margin:.2rem 0;font-size:1.9rem}
        h2{margin:3rem 0 .3rem;padding-bottom:.3rem;border-bottom:1px solid var(--line);font-size:1.4rem}
        h3{margin:0 0 .4rem;font-size:1.1rem}
        h3 a{color:inherit;text-decoration:none}
        h4{margin:1.3rem 0 .4rem;font-size:.95rem}
        article{margin:1.5rem 0;padding:1.2rem 1.4rem;border:1px solid var(--line);border-radius:.6rem}
        article:target{border-color:var(--link);box-shadow:0 0 0 1px var(--link)}
        p{margin:.4rem 0}
        code,pre{font-family:ui-monospace,monospace;font-size:.86em}
        p code,td code{overflow-wrap:anywhere}
        pre{margin:.4rem 0;padding:.8rem 1rem;overflow:auto;background:var(--panel);border:1px solid var(--line);border-radius:.4rem}
        details summary{cursor:pointer;color:var(--link)}
        nav details summary{color:var(--text)}
        main details{margin:.4rem 0}
        .quiet,.scope{color:var(--quiet);font-size:.9rem}
        .route{font-size:1rem;overflow-wrap:anywhere}
        .method{display:inline-block;min-width:3.4rem;margin-right:.4rem;font:700 .72rem ui-monospace,monospace;color:var(--quiet)}
        .get{color:var(--get)}.post{color:var(--post)}.put{color:var(--put)}.patch{color:var(--patch)}.delete{color:var(--delete)}
        .status{display:inline-block;margin-right:.5rem;font:700 .85rem ui-monospace,monospace;color:var(--get)}
        .bad{color:var(--delete)}
        .required,.retry{margin-left:.4rem;font-size:.75rem;color:var(--put)}
        .pattern{margin-left:.4rem;color:var(--quiet)}
        .table{overflow-x:auto}
        table{width:100%;border-collapse:collapse;font-size:.9rem}
        th,td{padding:.35rem .6rem .35rem 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}
        th{font-size:.78rem;color:var(--quiet);font-weight:600}
        @media (max-width:56rem){body{display:block}nav{position:static;height:auto;max-height:45vh;border-right:0;
        border-bottom:1px solid var(--line)}main{padding:1rem 1rem 4rem}article{padding:1rem}table{min-width:32rem}}
        @media print{nav{display:none}body{display:block}}
        """
}
