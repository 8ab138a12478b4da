"""Studio: a page in the browser for people who do not type commands. `noise2same studio` opens it."""
