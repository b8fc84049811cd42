"""Git repositories, by git in a confined child process. START HERE: `source`."""
