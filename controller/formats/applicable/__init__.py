"""What a format rendered becomes what server-side apply takes. START HERE: `applicable`."""
