"""What installs RukPak, generated from config/: config/install.yaml and the Helm chart config/chart."""
